// Edit a rule and see what it would do. Nothing is written to the cluster: the command that would
// is shown.
import { html, useEffect, useRef, useState } from "./lib.js";
import { gloss, say, sentence } from "./words.js";

export function Rule({ name, ask, rule, ns }) {
  const [text, edit] = useState(null);
  const [before, setBefore] = useState("");
  const [map, setMap] = useState({}); // of the ConfigMap: what a file of it needs beside the text
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState("");
  const latest = useRef(0);
  const load = async () => {
    const found = await ask(`/api/rule?service=${encodeURIComponent(name)}`);
    setProblem(found.problem || "");
    setBefore(found.text ?? "");
    const annotations = found.annotations ?? {};
    setMap({ name: rule, namespace: ns, field: found.key ?? "", annotations });
    edit(found.text ?? "");
  };
  useEffect(() => { load(); }, [name]);
  useEffect(() => {
    if (text === null) return undefined;
    const wait = setTimeout(async () => {
      const turn = ++latest.current;
      const found = await ask("/api/try", { service: name, rule: text });
      if (turn !== latest.current) return;
      setProblem(found.problem || "");
      setAnswer(found.problem ? null : found);
    }, 300);
    return () => clearTimeout(wait);
  }, [text, name]);
  if (text === null) return html`<p class="busy">${say("reading")}</p>`;
  const changed = text !== before;
  const height = Math.min(26, Math.max(10, text.split("\n").length + 1)); // in lines
  return html`
    <p class="muted">${say("try.text")}</p>
    <div class="try">
      <div>
        <textarea id="rule" wrap="off" spellcheck="false" aria-label=${say("try.label")}
          value=${text} onInput=${(e) => edit(e.target.value)} rows=${height} />
        <p class="bar"><button disabled=${!changed} onClick=${load}>${say("try.reset")}</button></p>
      </div>
      <div class="answer" aria-live="polite">
        ${problem ? html`
          <p class="finding error"><span aria-hidden="true">✕</span> ${problem}</p>` : ""}
        ${answer ? html`<${Answer} answer=${answer} service=${name} changed=${changed} />` : ""}
        ${answer && answer.valid && changed ? html`<${Apply} text=${text} map=${map} />` : ""}
      </div>
    </div>`;
}

// In the page's language where there is a sentence for it; the finding's own words, which name the
// values, below.
function Finding({ one }) {
  const meaning = gloss("finding", one.code);
  const own = html`${one.message}${one.hint ? html`<br /><small>${one.hint}</small>` : ""}`;
  const place = say("try.place", { line: one.line, column: one.column });
  return html`<p class=${`finding ${one.level}`}>
    <span aria-hidden="true">${one.level === "error" ? "✕" : "▲"}</span> <b>${place}</b>
    ${meaning ? html` ${meaning}<br /><span lang="en">${own}</span>` : html` ${own}`}</p>`;
}

// A ratio in words: what it asks for and whether that is there.
function aimed(one) {
  const ratio = one.counts.map(([name, count]) => `${count} ${name}`).join(" + ");
  return say(`try.aim.${one.standing}`, { ratio, awaited: one.awaited.join(", ") });
}

function Answer({ answer, service, changed }) {
  const findings = answer.findings.map((one) => html`<${Finding} one=${one} />`);
  if (!answer.valid) {
    return html`<h3>${say("try.invalid")}</h3>${findings}
      <p class="muted">${say("try.keeps")}</p>`;
  }
  const now = aimed(answer.now);
  const then = aimed(answer.then);
  return html`${findings}
    <dl class="compare">
      <dt>${say("try.now")}</dt><dd>${now}</dd>
      <dt>${say("try.then")}</dt><dd class=${now === then ? "" : "new"}>${then}</dd>
    </dl>
    <h3>${say(answer.changes.length ? "try.changes" : changed ? "try.nothing" : "try.same")}</h3>
    <ul class="changes">${answer.changes.map((one) => html`
      <${Change} one=${one} service=${service} />`)}</ul>
    ${answer.leftOut ? html`<p class="muted">${say("more", { count: answer.leftOut })}</p>` : ""}
    <details><summary>${say("try.plan")}</summary>
      <pre tabindex="0">$ ${answer.command}${"\n"}${answer.plan}</pre></details>
    <details><summary>${say("try.table")}</summary>
      <pre tabindex="0">${answer.table}</pre></details>`;
}

function Change({ one, service }) {
  const from = gloss("reason", one.before) || one.before;
  const to = gloss("reason", one.after) || one.after;
  const meaning = sentence(one.after, one.words);
  const own = html`<span lang="en">${one.words}</span>`;
  return html`<li class=${one.deed || "words"}>
    <b class="deed">${say(`deed.${one.deed || "none"}`)}</b> <strong>${one.name}</strong>${
      one.service === service ? "" : html` <small>${one.service}</small>`}
    <span class="text">${from} → ${to}. ${
      meaning ? html`${meaning} ${own}` : one.words}</span></li>`;
}

// Two ways: a file for whoever keeps the rule in a repository, and a command.
function Apply({ text, map }) {
  const [copied, mark] = useState(false);
  const patch = JSON.stringify({ data: { [map.field]: text } });
  const target = `-n ${quoted(map.namespace)} patch configmap ${quoted(map.name)}`;
  const command = `kubectl ${target} --type=merge -p ${quoted(patch)}`;
  const keep = () => save(`${map.name}.yaml`, manifest(map, text));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      mark(true);
      setTimeout(() => mark(false), 2000);
    } catch { /* it can be marked by hand */ }
  };
  return html`
    <h3>${say("try.apply")}</h3>
    <p class="muted">${say("try.fileText")}</p>
    <p class="bar"><button onClick=${keep}>${say("try.file")}</button></p>
    <p class="muted">${say("try.applyText")}</p>
    <pre class="command" tabindex="0">${command}</pre>
    <p class="bar"><button onClick=${copy}>${say(copied ? "copied" : "copy")}</button></p>`;
}

// The ConfigMap as a manifest. A text of several lines is a block, as people write it; JSON strings
// are YAML, too.
export function manifest({ name, namespace, field, annotations }, text) {
  const options = Object.entries(annotations).map(
    ([key, value]) => `\n    ${JSON.stringify(key)}: ${JSON.stringify(value)}`,
  );
  const told = options.length ? `\n  annotations:${options.join("")}` : "";
  return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    + `  name: ${JSON.stringify(name)}\n  namespace: ${JSON.stringify(namespace)}${told}\n`
    + `data:\n  ${JSON.stringify(field)}: ${asYaml(text)}\n`;
}

function asYaml(text) {
  const isBlock = text.includes("\n") && !/[\t\r]|^\s|\n\n$/.test(text) && !/ $/m.test(text);
  if (!isBlock) return JSON.stringify(text);
  const ends = text.endsWith("\n");
  const content = ends ? text.slice(0, -1) : text;
  const lines = content.split("\n").map((line) => (line ? `    ${line}` : ""));
  return `|${ends ? "" : "-"}\n${lines.join("\n")}`;
}

function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/yaml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// For a shell: harmless words as they are.
const quoted = (text) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
