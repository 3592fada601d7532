// Languages, times and numbers. One dictionary for each language, with the same keys (a test
// compares them).
import { recall, remember } from "./lib.js";

export const LANGUAGES = { en: "English", zh: "中文" };
let dictionary = {};
let sentences = {};
export let language = "en";

export async function speak(wanted) {
  language = LANGUAGES[wanted] ? wanted : "en";
  const read = async (name) => (await fetch(`/static/${name}-${language}.json`)).json();
  const translated = (name) => (language === "en" ? {} : read(name));
  const parts = [read("words"), read("reasons"), translated("sentences"), translated("findings")];
  const [words, reasons, others, findings] = await Promise.all(parts);
  dictionary = { ...words, ...reasons.words };
  for (const [code, said] of Object.entries(findings)) dictionary[`finding.${code}`] = said;
  sentences = { ...others, ...reasons.sentences };
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  remember("language", language);
}

export const usual = () =>
  recall("language") || (navigator.language.startsWith("zh") ? "zh" : "en");

// `{name}` in the sentence is replaced; a key that is not there stands for itself.
export function say(key, values = {}) {
  return (dictionary[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

// A name of the scaler's in words: reasons, states, conditions. "" for one that is not known.
export const gloss = (kind, name) => dictionary[`${kind}.${name}`] ?? "";

// A reason, warning, event or condition in a sentence of the page's language; "" in English, which
// the scaler itself writes. `message`: its words, which may repeat what the scheduler says.
export function sentence(name, message = "") {
  const [said = ""] = /(BatchOrder|JobEnqueue|JobValidate|NodePredicate)Failed/.exec(message) ?? [];
  return [sentences[name], sentences[said]].filter(Boolean).join(" ");
}

export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(s / 60);
  const hours = Math.floor(s / 3600);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${minutes}m${s < 600 && s % 60 ? `${s % 60}s` : ""}`;
  if (s < 86400) return `${hours}h${s < 36000 && minutes % 60 ? `${minutes % 60}m` : ""}`;
  return `${Math.floor(s / 86400)}d`;
}

export const seconds = (stamp) => (stamp ? Date.parse(stamp) / 1000 || 0 : 0);
export const since = (stamp, now) => (seconds(stamp) ? age(now - seconds(stamp)) : "");
const place = () => (language === "zh" ? "zh-CN" : "en-GB");
export const clock = (at) => new Date(at * 1000).toLocaleTimeString(place());
export const moment = (at) => new Date(at * 1000).toLocaleString(place());
export const number = (n) => n.toLocaleString(place());
