// All services, the worst first. What the list shows is in the address, so a link to it shows the
// same.
import { html, natural, useEffect, useMemo, useState, useStore } from "./lib.js";
import { EVERYTHING, showFilter } from "./address.js";
import { gloss, language, number, say, seconds, sentence, since } from "./words.js";
import { Group, Ladder, Rank, RANKS } from "./marks.js";
import { Rows, useNarrow } from "./rows.js";

const GROUPS_IN_SIGHT = 8; // of one row: as many as a rule may have
const SORTS = ["", "name", "newest"]; // "": the worst first

export const title = (row) => row.job || row.rule || "-";

// Of a service that nothing is wrong with.
export function calm(row) {
  const words = row.reason === "Complete" ? "" : gloss("reason", row.reason);
  return words || say("rank.complete");
}

export const wanted = (row) =>
  say(row.wanted === "all" ? "wanted.all" : "wanted", { number: row.wanted });

export function Reason({ name }) {
  const words = gloss("reason", name);
  return html`<span class="reason">${
    words ? html`<b>${words}</b> ` : ""}<code>${name}</code></span>`;
}

// What the scaler says, as it says it: in another language than its own below a sentence that says
// what it means.
export function Words({ name, text, lines = 0 }) {
  const meaning = sentence(name, text);
  const own = lines && !meaning ? `clamp lines-${lines}` : "";
  return html`
    ${meaning ? html`
      <small class="meaning" lang="zh-CN" title=${meaning}>${meaning}</small>` : ""}
    <small class=${own} lang="en" title=${text}>${text}</small>`;
}

// All that a row shows, for the search: in the language of the page, and names as they are written
// elsewhere.
function shownText(id, row) {
  const parts = [
    id, `${row.ns}/${title(row)}`, `${row.ns} / ${title(row)}`, `${row.ns}/${row.object}`,
    `esvc/${row.object}`,
    row.rule, row.reason, gloss("reason", row.reason), sentence(row.reason, row.message),
    row.message,
    say(`rank.${RANKS[row.rank]}`), ...row.groups, row.paused ? say("paused") : "",
  ];
  return parts.join(" ").toLowerCase();
}

const byName = (a, b) => natural(a, b);
const byRank = (one, other) => one.rank - other.rank || seconds(one.since) - seconds(other.since);

function chosen(rows, filter) {
  const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = RANKS.indexOf(filter.rank);
  const found = [];
  for (const [id, row] of rows) {
    if (rank >= 0 && row.rank !== rank) continue;
    if (filter.ns && row.ns !== filter.ns) continue;
    if (words.length) {
      const text = shownText(id, row);
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(id);
  }
  const newest = (a, b) => seconds(rows.get(b).since) - seconds(rows.get(a).since) || byName(a, b);
  const worst = (a, b) => byRank(rows.get(a), rows.get(b)) || byName(a, b);
  return found.sort({ name: byName, newest }[filter.sort] || worst);
}

export function Services({ live, open, filter: asked }) {
  useStore(live);
  const [filter, setFilter] = useState(asked);
  useEffect(() => setFilter(asked), [JSON.stringify(asked)]);
  const change = (what) => {
    const next = { ...filter, ...what };
    setFilter(next);
    showFilter(next);
  };
  const narrow = useNarrow();
  const rows = live.table("services");
  const version = live.version("services");
  const ids = useMemo(() => chosen(rows, filter), [rows, version, filter, language]);
  const about = useMemo(() => summary(rows), [rows, version]);
  const now = live.now();
  const namespaces = [["", say("filter.ns.all")], ...about.namespaces.map((name) => [name, name])];
  const height = narrow ? 150 : Math.max(78, 22 + 19 * about.groups);
  if (!version) {
    return html`<div class="empty">
      <h1>${say("tab.services")}</h1><p class="busy">${say("reading")}</p></div>`;
  }
  if (!rows.size) {
    const words = say(live.head.reading ? "reading" : "none.title");
    return html`<div class="empty"><h1>${words}</h1><p>${say("none.text")}</p></div>`;
  }
  return html`
    <section class="page full">
      <h1 class="hidden">${say("tab.services")}</h1>
      <div class="above">
        <${Tally} counts=${about.counts} rank=${filter.rank} choose=${(rank) => change({ rank })} />
        <div class="tools">
          ${about.namespaces.length > 1 || filter.ns ? html`
            <${Choice} id="ns" label=${say("filter.ns")} value=${filter.ns}
              onChange=${(ns) => change({ ns })} options=${namespaces} />` : ""}
          <${Choice} id="sort" label=${say("sort")} value=${filter.sort}
            onChange=${(sort) => change({ sort })}
            options=${SORTS.map((name) => [name, say(`sort.${name || "worst"}`)])} />
          <input type="search" value=${filter.q} onInput=${(e) => change({ q: e.target.value })}
            placeholder=${say("search")} aria-label=${say("search")} />
        </div>
      </div>
      ${narrow ? "" : html`<div class="columns services" aria-hidden="true">
        <span /><span>${say("col.service")}</span><span>${say("col.ladder")}</span>
        <span>${say("col.groups")}</span>
        <span>${say("col.why")}</span><span>${say("col.since")}</span>
      </div>`}
      ${ids.length ? html`
        <${Rows} fill ids=${ids} height=${height} label=${say("tab.services")}
          onOpen=${(id) => open("service", id)}
          row=${(id) => html`<${Line} row=${rows.get(id)} now=${now} narrow=${narrow} />`} />`
        : html`<div class="empty"><p>${say("none.fits")}</p>
          <p><button onClick=${() => change(EVERYTHING)}>${say("filter.none")}</button></p></div>`}
    </section>`;
}

// Of all services: how many of each rank, their namespaces, and the most groups of one.
function summary(rows) {
  const counts = RANKS.map(() => 0);
  const namespaces = new Set();
  let groups = 0;
  for (const row of rows.values()) {
    counts[row.rank] += 1;
    namespaces.add(row.ns);
    const lines = Math.min(row.groups.length, GROUPS_IN_SIGHT) + (row.groupsLeft ? 1 : 0);
    groups = Math.max(groups, lines);
  }
  return { counts, namespaces: [...namespaces].sort(natural), groups };
}

function Tally({ counts, rank, choose }) {
  const look = (name, count) =>
    `count ${name}${count ? "" : " zero"}${rank === name ? " here" : ""}`;
  return html`<div class="tally" role="group" aria-label=${say("filter")}>
    ${RANKS.map((name, index) => html`
      <button class=${look(name, counts[index])} aria-pressed=${rank === name}
        onClick=${() => choose(rank === name ? "" : name)}>
        <${Rank} rank=${index} size=${14} /><b>${number(counts[index])}</b>
        <span>${say(`rank.${name}`)}</span>
      </button>`)}
  </div>`;
}

function Choice({ id, label, value, options, onChange }) {
  return html`<label class="hidden" for=${id}>${label}</label>
    <select id=${id} title=${label} value=${value} onChange=${(e) => onChange(e.target.value)}>
      ${options.map(([key, words]) => html`
        <option value=${key} selected=${key === value}>${words}</option>`)}
    </select>`;
}

function Line({ row, now, narrow }) {
  const name = `${row.ns} / ${title(row)}`;
  return html`
    <div class=${`line services ${RANKS[row.rank]}${narrow ? " narrow" : ""}`}>
      <${Rank} rank=${row.rank} />
      <span class="who" title=${`${name} · ${say("rule")} ${row.rule}`}>
        <span class="name"><small>${row.ns} / </small><strong>${title(row)}</strong></span>
        <small>${say("rule")} ${row.rule}${
          row.paused ? html` · <em>${say("paused")}</em>` : ""}</small>
      </span>
      <span class="stair"><${Ladder} row=${row} />${
        row.wanted === "all" ? "" : html`<small class="wanted">${wanted(row)}</small>`}</span>
      <span class="groups"><${GroupsOf} row=${row} narrow=${narrow} /></span>
      <span class="why">${row.rank === 4 ? html`<span class="calm">${calm(row)}</span>`
        : html`<${Reason} name=${row.reason} />
          <${Words} name=${row.reason} text=${row.message} lines=${narrow ? 2 : 3} />`}</span>
      <span class="age">${since(row.since, now)}</span>
    </div>`;
}

function GroupsOf({ row, narrow }) {
  if (narrow) {
    const sums = row.groups.map((name, i) => {
      const [running, target] = row.counts[i];
      return html`<span class="sum">${name} <b>${running}/${target}</b></span>`;
    });
    return html`${sums}${row.groupsLeft ? html`<span class="sum">+${row.groupsLeft}</span>` : ""}`;
  }
  const shown = row.groups.slice(0, GROUPS_IN_SIGHT);
  return html`${shown.map((name, i) => html`<${Group} name=${name} counts=${row.counts[i]} />`)}
    ${row.groupsLeft ? html`<small>${say("more", { count: row.groupsLeft })}</small>` : ""}`;
}
