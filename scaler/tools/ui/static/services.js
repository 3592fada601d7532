// All services, the worst first.
import { html, useMemo, useState, useStore } from "./lib.js";
import { gloss, number, say, seconds, sentence, since } from "./words.js";
import { Group, Ladder, Rank, RANKS } from "./marks.js";
import { Rows } from "./rows.js";

export const title = (row) => row.job || row.rule || "-";

// Of a service that nothing is wrong with.
export const calm = (row) => (row.reason === "Complete" ? "" : gloss("reason", row.reason)) || say("rank.complete");

export const wanted = (row) => say(row.wanted === "all" ? "wanted.all" : "wanted", { number: row.wanted });

export function Reason({ name }) {
  const words = gloss("reason", name);
  return html`<span class="reason">${words ? html`<b>${words}</b> ` : ""}<code>${name}</code></span>`;
}

// What the scaler says, as it says it: in another language than its own below a sentence that says what it means.
export function Words({ name, text, lines = 0 }) {
  const meaning = sentence(name, text);
  const own = lines === 2 ? "clamp" : "";
  return html`${meaning ? html`<small class="meaning" lang="zh-CN" title=${meaning}>${meaning}</small>` : ""}<small class=${meaning ? "" : own} lang="en" title=${text}>${text}</small>`;
}

function sorted(rows, wanted, rank) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [id, row] of rows) {
    if (rank !== null && row.rank !== rank) continue;
    if (words.length) {
      const text = `${id} ${row.reason} ${row.message} ${row.object}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push([row.rank, seconds(row.since), id]);
  }
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : 1));
  return found.map((one) => one[2]);
}

export function Services({ live, open }) {
  useStore(live);
  const [wanted, want] = useState("");
  const [rank, choose] = useState(null);
  const rows = live.table("services");
  const version = live.version("services");
  const ids = useMemo(() => sorted(rows, wanted, rank), [rows, version, wanted, rank]);
  const counts = useMemo(() => {
    const found = RANKS.map(() => 0);
    for (const row of rows.values()) found[row.rank] += 1;
    return found;
  }, [rows, version]);
  const now = live.now();
  if (!version) return html`<div class="empty"><p class="busy">${say("reading")}</p></div>`;
  if (!rows.size) return html`<div class="empty"><h1>${say(live.head.reading ? "reading" : "none.title")}</h1><p>${say("none.text")}</p></div>`;
  return html`
    <section class="page full">
      <div class="above">
        <div class="tally" role="group" aria-label=${say("filter")}>
          ${RANKS.map((name, index) => html`
            <button class=${`count ${name}${counts[index] ? "" : " zero"}${rank === index ? " here" : ""}`} aria-pressed=${rank === index}
              onClick=${() => choose(rank === index ? null : index)}>
              <${Rank} rank=${index} size=${14} /><b>${number(counts[index])}</b><span>${say(`rank.${name}`)}</span>
            </button>`)}
        </div>
        <input type="search" value=${wanted} onInput=${(e) => want(e.target.value)} placeholder=${say("search")} aria-label=${say("search")} />
      </div>
      <div class="columns services" aria-hidden="true">
        <span /><span>${say("col.service")}</span><span>${say("col.ladder")}</span><span>${say("col.groups")}</span><span>${say("col.why")}</span><span>${say("col.since")}</span>
      </div>
      ${ids.length ? html`<${Rows} fill ids=${ids} height=${78} label=${say("tab.services")} onOpen=${(id) => open("service", id)}
          row=${(id) => html`<${Line} row=${rows.get(id)} now=${now} />`} />`
        : html`<div class="empty"><p>${say("none.fits")}</p></div>`}
    </section>`;
}

function Line({ row, now }) {
  return html`
    <div class=${`line services ${RANKS[row.rank]}`}>
      <${Rank} rank=${row.rank} />
      <span class="who"><span class="name"><small>${row.ns} / </small><strong>${title(row)}</strong></span><small>${say("rule")} ${row.rule}${row.paused ? html` · <em>${say("paused")}</em>` : ""}</small></span>
      <span><${Ladder} row=${row} />${row.wanted === "all" ? "" : html`<small class="wanted">${wanted(row)}</small>`}</span>
      <span class="groups">${row.groups.slice(0, 3).map((name, i) => html`<${Group} name=${name} counts=${row.counts[i]} />`)}</span>
      <span class="why">${row.rank === 4 ? html`<span class="calm">${calm(row)}</span>` : html`<${Reason} name=${row.reason} /><${Words} name=${row.reason} text=${row.message} lines=${2} />`}</span>
      <span class="age">${since(row.since, now)}</span>
    </div>`;
}
