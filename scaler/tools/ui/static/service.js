// One service: what is wrong and since when, its ladder, its instances over time and now, what
// happened, its rule.
import { html, natural, useEffect, useMemo, useState, useStore } from "./lib.js";
import { backToList } from "./address.js";
import { age, clock, gloss, language, moment, say, sentence, since } from "./words.js";
import { Group, Rank, RANKS, StateMark } from "./marks.js";
import { calm, Reason, title, wanted, Words } from "./services.js";
import { Rows, useNarrow } from "./rows.js";
import { Chart } from "./chart.js";
import { Rule } from "./rule.js";

const BADNESS = {
  Broken: 0, Held: 1, Admitted: 2, Starting: 3, Terminating: 4, Running: 5, Finished: 6,
};

export function Service({ live, name, open, ask }) {
  useStore(live);
  const [past, setPast] = useState({ totals: {}, moments: {}, problem: "" });
  useEffect(() => {
    const about = `/api/past?service=${encodeURIComponent(name)}`;
    ask(about).then((found) => setPast({ totals: {}, moments: {}, ...found }));
  }, [name]);
  const row = live.table("service").get("");
  if (!live.version("service")) {
    return html`<div class="empty"><p class="busy">${say("reading")}</p></div>`;
  }
  if (!row) {
    return html`<div class="empty"><h1>${say("gone.title")}</h1>
      <p>${say("gone.text", { name })}</p><p><${Back} /></p></div>`;
  }
  return html`<${Shown} live=${live} row=${row} name=${name} past=${past} ask=${ask} />`;
}

function Back() {
  const href = backToList();
  return html`<a href=${href}>${say("back")}</a>`;
}

function Shown({ live, row, name, past, ask }) {
  const now = live.now();
  const samples = useMemo(() => samplesOf(live), [live.version("samples")]);
  const told = live.table("moments");
  const moments = useMemo(
    () => once([...told.values(), ...Object.values(past.moments)]),
    [live.version("moments"), past],
  );
  const totals = useMemo(() => totalsOf(past), [past]);
  const isTroubled = row.rank < 4;
  return html`
    <section class="page">
      <p class="crumbs"><${Back} /></p>
      <div class=${`hero ${RANKS[row.rank]}`}>
        <${Rank} rank=${row.rank} size=${34} />
        <div>
          <h1>${title(row)}</h1>
          <p class="sub">${row.ns} · ${say("rule")} ${row.rule}${
            row.object ? html` · <code>esvc/${row.object}</code>` : ""}${
            row.paused ? html` · <em>${say("paused")}</em>` : ""}</p>
        </div>
        <div class="verdict">
          <p class="big">${isTroubled ? say(`rank.${RANKS[row.rank]}`) : calm(row)} <span
            class="age">${since(row.since, now)}</span></p>
          ${isTroubled ? html`<p><${Reason} name=${row.reason} /></p>` : ""}
          <${Meaning} name=${row.reason} message=${row.message} />
          <p class="words" lang="en">${row.message}</p>
        </div>
      </div>
      <${Conditions} said=${row.said} now=${now} />
      ${[row.outOfTouch, row.alone].filter(Boolean).map((words) => html`
        <div class="notice warn"><span aria-hidden="true">▲</span><span>${words}</span></div>`)}
      <div class="two">
        <div class="card">
          <h2>${say("ladder")} <small class="wanted">${wanted(row)}</small></h2>
          <${Steps} row=${row} />
        </div>
        <div class="card wide"><h2>${say("overTime")}</h2>
          <${Chart} groups=${row.groups} samples=${samples} moments=${moments} totals=${totals}
            now=${now} />
          ${past.problem ? html`<p class="muted">${past.problem}</p>` : ""}
        </div>
      </div>
      ${isTroubled ? html`<div class="card"><h2>${say("why.title")}</h2>
        <${Why} name=${name} ask=${ask} about=${row.reason + row.message} /></div>` : ""}
      <div class="card"><h2>${say("instances")}</h2>
        <${Instances} live=${live} now=${now} left=${row.leftOut.instances || 0} /></div>
      ${row.warnings.length ? html`<${Warnings} warnings=${row.warnings} />` : ""}
      <div class="card"><h2>${say("happened")}</h2>
        <${Moments} moments=${moments} now=${now} /></div>
      <div class="card"><h2>${say("try.title")}</h2>
        <${Rule} name=${name} ask=${ask} rule=${row.rule} ns=${row.ns} /></div>
    </section>`;
}

const earlier = ([one], [other]) => one - other;

function samplesOf(live) {
  return [...live.table("samples")].map(([at, by]) => [Number(at), by]).sort(earlier);
}

function totalsOf(past) {
  return Object.entries(past.totals).map(([at, by]) => [Number(at), by.Running || 0]);
}

function Warnings({ warnings }) {
  return html`<div class="card"><h2>${say("warnings")}</h2>
    <ul class="warnings">${warnings.map(([kind, instance, words]) => html`
      <li><code>${kind}</code> ${instance ? html`<b>${instance}</b> ` : ""}<${Meaning}
        name=${kind} /><span lang="en">${words}</span></li>`)}</ul></div>`;
}

function Meaning({ name, message }) {
  const words = sentence(name, message);
  return words ? html`<p class="words">${words}</p>` : "";
}

// Seconds: the status, its conditions and an event tell of one thing within them.
const TOGETHER = 2;

// The newest first. What several tell of one moment in the same words stands once, with all who
// told it.
function once(found) {
  const key = (one) => `${one.subject} ${one.reason}`;
  const others = found.filter((one) => one.kind !== "event");
  const told = new Map(others.map((one) => [key(one), one.at]));
  const twice = (one) => Math.abs((told.get(key(one)) ?? -99) - one.at) < 30;
  const ordered = found
    .map((one) => (one.kind === "event" && twice(one) ? { ...one, level: "plain" } : one))
    .sort((a, b) => b.at - a.at || LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
  const shown = [];
  for (const one of ordered) {
    const isSame = (other) => other.text === one.text && other.at - one.at <= TOGETHER;
    const same = one.text && shown.find(isSame);
    if (same) join(same, one);
    else shown.push({ ...one, others: [] });
  }
  return shown;
}

const LEVELS = ["bad", "warning", "good", "plain"];

// The one entry that stands for both is as bad as the worse of them, and names each teller once.
function join(shown, one) {
  const isKnown = (other) => other.subject === one.subject && other.reason === one.reason;
  const known = [shown, ...shown.others].some(isKnown);
  if (known) return;
  const worse = LEVELS.indexOf(one.level) < LEVELS.indexOf(shown.level);
  shown.others.push(worse ? { ...shown, others: [] } : one);
  if (worse) Object.assign(shown, one);
}

const SIGNS = { FAIL: "✕", note: "▲", ok: "✓" };
const CHECKS_IN_SIGHT = 6; // of one section

// What `scaler why` says in the page's language: asked again when the service says something else.
function Why({ name, ask, about }) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let here = true;
    const wait = setTimeout(async () => {
      const query = `service=${encodeURIComponent(name)}&language=${language}`;
      const found = await ask(`/api/why?${query}`);
      if (here) setAnswer(found);
    }, 300);
    return () => {
      here = false;
      clearTimeout(wait);
    };
  }, [name, about, language]);
  if (!answer) return html`<p class="busy">${say("reading")}</p>`;
  if (answer.problem) return html`<p class="muted">${answer.problem}</p>`;
  const isWell = (one) => one.standing === "ok";
  const titleOf = (section) => gloss("section", section.title) || section.title;
  const checks = answer.sections.flatMap((section) => {
    const bad = section.checks.filter((one) => !isWell(one)).slice(0, CHECKS_IN_SIGHT);
    return bad.map((one) => ({ ...one, title: titleOf(section) }));
  });
  const well = answer.sections.filter((section) => section.checks.every(isWell)).map(titleOf);
  return html`<ul class="checks">${checks.map((one) => html`
      <li class=${one.standing}>
        <span class="sign" aria-hidden="true">${SIGNS[one.standing]}</span>
        <span class="title">${one.title}</span>
        <span class="text"><b>${one.about}</b> ${one.words}</span>
      </li>`)}
      ${well.length ? html`<li class="ok">
        <span class="sign" aria-hidden="true">${SIGNS.ok}</span>
        <span class="title">${say("why.well")}</span>
        <span class="text">${well.join(", ")}</span>
      </li>` : ""}</ul>
    ${answer.next.length ? html`<h3>${say("why.next")}</h3>
      <ol class="next">${answer.next.map((line) => html`<li>${
        /^(kubectl|scaler) /.test(line) ? html`<code>${line}</code>` : line}</li>`)}</ol>` : ""}`;
}

const GOOD = {
  Available: "True", Complete: "True", Degraded: "False", RuleValid: "True",
  ScalingLimited: "False",
};
const SOFT = ["Complete", "ScalingLimited"]; // no fault where they are not as in GOOD

function Conditions({ said, now }) {
  return html`<ul class="conditions">${said.map((one) => {
    const fine = GOOD[one.type] === one.status;
    const look = fine ? "fine" : SOFT.includes(one.type) ? "soft" : "off";
    const words = `${sentence(one.reason)}${one.reason}: ${one.message}`;
    return html`<li class=${look} title=${words}>
      <span aria-hidden="true">${fine ? "✓" : "✕"}</span>
      <b>${say(`condition.${one.type}.${one.status}`)}</b>
      <span class="age">${since(one.lastTransitionTime, now)}</span></li>`;
  })}</ul>`;
}

function lookOfStep({ current, aim, limit }, index) {
  if (current >= 0 && index === current) return "reached";
  if (index === aim) return "aim";
  if (current >= 0 && index > current) return "below";
  return index < limit ? "unwanted" : "";
}

function flagsOfStep({ current, aim, limit }, index) {
  const flags = [];
  if (index === current) flags.push(say("ladder.runs"));
  if (index === aim && index !== current) flags.push(say("ladder.aim"));
  if (index === limit && index && index !== current) flags.push(say("ladder.wanted"));
  if (index < limit) flags.push(say("ladder.unwanted"));
  return flags;
}

// The ratios, the largest first, as `scaler plan --table` lists them.
function Steps({ row }) {
  if (!row.steps.length) return html`<p class="muted">${say("ladder.none")}</p>`;
  return html`<ol class="steps">${row.steps.map((counts, index) => html`
    <li class=${lookOfStep(row, index)}>
      <span class="what">${row.groups.map((name, i) => (counts[i]
        ? html`<span><b>${counts[i]}</b> ${name}</span>` : ""))}</span>
      ${flagsOfStep(row, index).map((words) => html`<span class="flag">${words}</span>`)}
    </li>`)}</ol>${
    row.left ? html`<p class="muted">${say("more", { count: row.left })}</p>` : ""}
  <div class="groups tall">${row.groups.map((name, i) => html`
    <${Group} name=${name} counts=${row.counts[i]} />`)}</div>`;
}

function Instances({ live, now, left }) {
  const rows = live.table("instances");
  const [opened, unfold] = useState(null);
  const narrow = useNarrow();
  const worst = (a, b) => {
    const [one, other] = [rows.get(a), rows.get(b)];
    return (BADNESS[one.state] ?? 9) - (BADNESS[other.state] ?? 9)
      || natural(one.group, other.group) || natural(a, b);
  };
  const ids = useMemo(() => [...rows.keys()].sort(worst), [rows, live.version("instances")]);
  if (!ids.length) return html`<p class="muted">${say("instances.none")}</p>`;
  const one = opened && rows.get(opened);
  return html`
    ${narrow ? "" : html`<div class="columns instances" aria-hidden="true">
      <span /><span>${say("col.instance")}</span><span>${say("col.group")}</span>
      <span>${say("col.why")}</span>
      <span>${say("col.nodes")}</span><span>${say("col.since")}</span></div>`}
    <${Rows} ids=${ids} height=${narrow ? 132 : 74} most=${10} label=${say("instances")}
      onOpen=${(id) => unfold(id === opened ? null : id)}
      row=${(id) => html`
        <${Instance} id=${id} one=${rows.get(id)} now=${now} narrow=${narrow} />`} />
    ${left ? html`<p class="muted">${say("more", { count: left })}</p>` : ""}
    ${one ? html`<${Pods} id=${opened} one=${one} />`
      : html`<p class="muted">${say("instances.hint")}</p>`}`;
}

function Instance({ id, one, now, narrow }) {
  const more = one.nodes.length > 2 ? ` +${one.nodes.length - 2}` : "";
  const shown = one.nodes.slice(0, 2).join(", ") + more;
  const runs = one.state === "Running" && one.reason === "Running";
  const state = gloss("state", one.state) || one.state;
  return html`<div class=${`line instances ${one.state}${narrow ? " narrow" : ""}`}>
    <${StateMark} state=${one.state} />
    <span class="who" title=${id}><strong>${id}</strong>
      <small>${one.kind}${narrow ? ` · ${one.group}` : ""}</small></span>
    ${narrow ? "" : html`<span class="cell" title=${one.group}>${one.group}</span>`}
    <span class="why">
      <span class="reason"><b>${state}</b>${
        runs ? "" : html` · ${gloss("reason", one.reason)} <code>${one.reason}</code>`}</span>
      ${runs ? "" : html`
        <${Words} name=${one.reason} text=${one.message} lines=${2} />`}</span>
    <span class="cell" title=${one.nodes.join(", ")}>${shown}</span>
    <span class="age">${since(one.since, now)}</span></div>`;
}

function Pods({ id, one }) {
  return html`<div class="pods" role="region" aria-live="polite" aria-label=${id}>
    <h3>${id}</h3>
    <${Meaning} name=${one.reason} message=${one.message} /><p lang="en">${one.message}</p>
    ${one.pods.length ? html`<table>
      <thead><tr>
        <th>${say("col.pod")}</th><th>${say("col.state")}</th><th>${say("col.node")}</th>
        <th>${say("col.restarts")}</th><th>${say("col.said")}</th>
      </tr></thead>
      <tbody>${one.pods.map((pod) => html`<${Pod} pod=${pod} />`)}</tbody></table>`
    : html`<p class="muted">${say("pods.none")}</p>`}</div>`;
}

function Pod({ pod: [name, standing, node, trouble, restarts, words] }) {
  return html`<tr>
    <td>${name}</td><td>${standing}</td>
    <td>${node}${trouble ? html` <b class="trouble">✕ ${trouble}</b>` : ""}</td>
    <td>${restarts || ""}</td><td>${words}</td></tr>`;
}

function Moments({ moments, now }) {
  const [all, showAll] = useState(false);
  const isShown = (one) => all || one.level !== "plain" || one.kind !== "event";
  const shown = moments.filter(isShown);
  const sign = { bad: "✕", warning: "▲", good: "✓" };
  if (!moments.length) return html`<p class="muted">${say("happened.none")}</p>`;
  return html`
    <label class="check">
      <input type="checkbox" checked=${all} onChange=${(e) => showAll(e.target.checked)} />
      ${say("happened.all", { count: moments.length })}</label>
    <ol class="moments">${shown.slice(0, 150).map((one) => html`
      <li class=${one.level}>
        <time title=${moment(one.at)}>${clock(one.at)}<small>${
          say("ago", { age: age(now - one.at) })}</small></time>
        <span class="sign" aria-hidden="true">${sign[one.level] || "·"}</span>
        <span class="what"><${Teller} one=${one} />
          ${one.others.map((other) => html` · <${Teller} one=${other} />`)}
          <span class="text">${one.text}</span>${
            one.source ? html`<small>${one.source}</small>` : ""}</span></li>`)}</ol>`;
}

// Who says it: a condition, the ratio, or an object with the reason.
function Teller({ one }) {
  if (one.kind === "condition") {
    return html`<b>${say(`condition.${one.subject}.${one.reason}`)}</b>`;
  }
  if (one.kind === "ratio") return html`<b>${say(`moment.${one.subject}`)}</b>`;
  return html`<b>${one.subject}</b> ${gloss("reason", one.reason)} <code>${one.reason}</code>
    ${one.count > 1 ? html` <span class="times">×${one.count}</span>` : ""}`;
}
