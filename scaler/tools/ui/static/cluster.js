// The nodes by kind: used, occupied but not serving, free, asked for; who waits for them; and each
// node.
import { html, natural, useMemo, useState, useStore } from "./lib.js";
import { number, say } from "./words.js";
import { Reason, Words } from "./services.js";
import { Rows, useNarrow } from "./rows.js";

const short = (resource) => resource.replace(/^.*\//, "");
const PARTS = ["serving", "idle", "other", "free", "shut"];

function parts([all, free, serving, idle, shut = 0]) {
  return { all, serving, idle, free, shut, other: Math.max(0, all - free - serving - idle - shut) };
}

export function Cluster({ live, open }) {
  useStore(live);
  const worst = ([, a], [, b]) => b.notReady - a.notReady || b.nodes - a.nodes;
  const kinds = [...live.table("kinds")].sort(worst);
  const waiting = live.table("waiting");
  if (!live.version("kinds")) {
    return html`<div class="empty">
      <h1>${say("tab.cluster")}</h1><p class="busy">${say("reading")}</p></div>`;
  }
  if (!kinds.length) {
    return html`<div class="empty">
      <h1>${say("nodes.none")}</h1><p>${say("nodes.noneText")}</p></div>`;
  }
  return html`
    <section class="page">
      <h1>${say("tab.cluster")}</h1>
      <p class="legend">${PARTS.map((part) => html`
        <span><i class=${part} />${say(`part.${part}`)}</span>`)}</p>
      <div class="kinds">${kinds.map(([name, kind]) => html`
        <${Kind} name=${name} kind=${kind} />`)}</div>
      <div class="card">
        <h2>${say("waiting")} <span class="muted">${number(waiting.size)}</span></h2>
        ${waiting.size ? html`
          <${Waiting} rows=${waiting} version=${live.version("waiting")} open=${open} />`
          : html`<p class="muted">${say("waiting.none")}</p>`}</div>
      <${Nodes} live=${live} open=${open} />
    </section>`;
}

function Bar({ amounts, label }) {
  const found = parts(amounts);
  const there = PARTS.filter((part) => found[part]);
  const told = there.map((part) => `${say(`part.${part}`)} ${number(found[part])}`);
  const words = `${label}: ${told.join(", ")}`;
  return html`<span class="stack" role="img" aria-label=${words} title=${words}>
    ${there.map((part) => html`<i class=${part} style=${{ flexGrow: found[part] }} />`)}</span>`;
}

function Kind({ name, kind }) {
  return html`<div class="card kind">
    <h2>${name || say("kind.any")}</h2>
    <p class="sub">${say("kind.nodes", { count: number(kind.nodes) })}
      ${kind.notReady ? html` · <b class="trouble">✕ ${
        say("kind.notReady", { count: kind.notReady })}</b>` : ""}
      ${kind.cordoned ? html` · <b class="soft">▲ ${
        say("kind.cordoned", { count: kind.cordoned })}</b>` : ""}</p>
    ${Object.entries(kind.amounts).map(([resource, amounts]) => html`
      <${Amounts} resource=${resource} amounts=${amounts} />`)}
    ${kind.superPods.length ? html`<${SuperPods} kind=${kind} />` : ""}
  </div>`;
}

function SuperPods({ kind }) {
  const told = ([id, nodes, free]) =>
    say("superPod.one", { id, free: number(free), nodes: number(nodes) });
  const blocks = kind.blocks.map(([size, count]) => html`
    <span> · ${say("superPods.blocks", { count: number(count), size: number(size) })}</span>`);
  return html`<div class="amounts superpods">
    <p class="head"><span>${say("superPods")}</span><b>${
      number(kind.superPods.length)}</b> ${blocks}</p>
    <p class="sums">${kind.superPods.map((one) => html`
      <span class=${one[2] ? "" : "muted"}>${told(one)}</span>`)}</p></div>`;
}

function Amounts({ resource, amounts }) {
  const found = parts(amounts);
  const used = PARTS.filter((part) => found[part] && part !== "free");
  return html`<div class="amounts">
    <p class="head"><span>${short(resource)}</span><b>${
      number(found.free)}</b> ${say("kind.freeOf", { all: number(found.all) })}</p>
    <${Bar} amounts=${amounts} label=${resource} />
    <p class="sums">${used.map((part) => html`
      <span class=${part}>${say(`part.${part}`)} <b>${number(found[part])}</b></span>`)}
      ${amounts[5] ? html`<span class="asked">${
        say("kind.asked")} <b>${number(amounts[5])}</b></span>` : ""}</p></div>`;
}

function Waiting({ rows, version, open }) {
  const narrow = useNarrow();
  const ids = useMemo(() => [...rows.keys()].sort((a, b) => {
    const [one, other] = [rows.get(a), rows.get(b)];
    return one.serves - other.serves || other.reserved - one.reserved || (a < b ? -1 : 1);
  }), [rows, version]);
  return html`
    ${narrow ? "" : html`<div class="columns waiting" aria-hidden="true">
      <span>${say("col.service")}</span><span>${say("col.asks")}</span>
      <span>${say("col.why")}</span></div>`}
    <${Rows} ids=${ids} height=${narrow ? 150 : 96} most=${6} label=${say("waiting")}
      onOpen=${(id) => open("service", id)}
      row=${(id) => html`<${Waiter} id=${id} one=${rows.get(id)} narrow=${narrow} />`} />`;
}

function Waiter({ id, one, narrow }) {
  return html`<div class=${narrow ? "line waiting narrow" : "line waiting"}>
    <span class="who" title=${id}><strong>${id}</strong>
      <small>${one.serves ? say("waiting.serves")
        : html`<b class="trouble">✕ ${say("waiting.not")}</b>`}
        ${one.reserved ? ` · ${say("waiting.reserved")}` : ""}</small></span>
    <span class="cell asks">${one.asks.slice(0, 3).map((ask) => html`
      <span class="clamp" title=${ask}>${ask}</span>`)}</span>
    <span class="why"><${Reason} name=${one.reason} />
      <${Words} name=${one.reason} text=${one.message} lines=${narrow ? 2 : 3} /></span></div>`;
}

// Those with trouble first.
function rank(row) {
  if (row.state === "notReady") return 0;
  if (row.state === "cordoned") return 1;
  if (row.trouble) return 2;
  const idle = Object.values(row.amounts).reduce((sum, amounts) => sum + amounts[3], 0);
  return idle ? 3 : 4;
}

function shownText(id, row) {
  const parts = [id, row.kind, trouble(row), superPod(row)];
  return [...parts, ...row.guests.map((guest) => guest[0])].join(" ").toLowerCase();
}

function trouble(row) {
  return row.trouble || (row.state === "ready" ? "" : say(`state.node.${row.state}`));
}

const superPod = (row) => (row.superPod >= 0 ? say("superPod", { id: row.superPod }) : "");

function Nodes({ live, open }) {
  const [wanted, want] = useState("");
  const narrow = useNarrow();
  const rows = live.table("nodes");
  const version = live.version("nodes");
  const ids = useMemo(() => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const [id, row] of rows) {
      const text = words.length ? shownText(id, row) : "";
      if (words.every((word) => text.includes(word))) found.push([rank(row), id]);
    }
    return found.sort((a, b) => a[0] - b[0] || natural(a[1], b[1])).map((one) => one[1]);
  }, [rows, version, wanted]);
  const openFirst = (id) => {
    const guest = rows.get(id).guests[0];
    if (guest) open("service", guest[0]);
  };
  return html`<div class="card">
    <div class="above"><h2>${say("nodes")} <span class="muted">${number(ids.length)}</span></h2>
      <input type="search" value=${wanted} onInput=${(e) => want(e.target.value)}
        placeholder=${say("search.nodes")} aria-label=${say("search.nodes")} /></div>
    ${narrow ? "" : html`<div class="columns nodes" aria-hidden="true">
      <span>${say("col.node")}</span><span>${say("col.used")}</span>
      <span class="num">${say("col.free")}</span>
      <span>${say("col.trouble")}</span><span>${say("col.guests")}</span></div>`}
    <${Rows} ids=${ids} height=${narrow ? 96 : 48} most=${14} label=${say("nodes")}
      onOpen=${openFirst}
      row=${(id) => html`<${Node} id=${id} row=${rows.get(id)} narrow=${narrow} />`} />
  </div>`;
}

function Node({ id, row, narrow }) {
  const [resource, amounts] = Object.entries(row.amounts)[0] || ["", [0, 0, 0, 0]];
  // what is free on a node that takes no pods is not to be had
  const isReady = row.state === "ready";
  const shown = isReady ? amounts : [amounts[0], 0, amounts[2], amounts[3], amounts[1]];
  const words = trouble(row);
  const cordoned = row.state === "cordoned";
  const sign = cordoned ? "▲" : "✕";
  return html`<div class=${narrow ? "line nodes narrow" : "line nodes"}>
    <span class="who" title=${`${id} · ${row.kind}`}><strong>${id}</strong>
      <small>${superPod(row) ? `${superPod(row)} · ` : ""}${row.kind}</small></span>
    <${Bar} amounts=${shown} label=${resource} />
    <span class="cell num">${amounts[1]}/${amounts[0]}</span>
    <span class="cell" title=${words}>${words ? html`
      <b class=${cordoned ? "soft" : "trouble"}>${sign} ${words}</b>` : ""}</span>
    <span class="cell guests" title=${row.guests.map((guest) => guest[0]).join(", ")}>
      ${row.guests.map(([key, serves]) => html`
        <span class=${serves ? "" : "idle"}>${key}</span>`)}</span></div>`;
}
