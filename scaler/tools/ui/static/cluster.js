// The nodes by kind: used, occupied but not serving, free, asked for; who waits for them; and each node.
import { html, natural, useMemo, useState, useStore } from "./lib.js";
import { number, say } from "./words.js";
import { Reason, Words } from "./services.js";
import { Rows } from "./rows.js";

const short = (resource) => resource.replace(/^.*\//, "");
const PARTS = ["serving", "idle", "other", "free", "shut"];

function parts([all, free, serving, idle, shut = 0]) {
  return { all, serving, idle, free, shut, other: Math.max(0, all - free - serving - idle - shut) };
}

export function Cluster({ live, open }) {
  useStore(live);
  const kinds = [...live.table("kinds")].sort((a, b) => b[1].notReady - a[1].notReady || b[1].nodes - a[1].nodes);
  const waiting = [...live.table("waiting")];
  if (!live.version("kinds")) return html`<div class="empty"><p class="busy">${say("reading")}</p></div>`;
  if (!kinds.length) return html`<div class="empty"><h1>${say("nodes.none")}</h1><p>${say("nodes.noneText")}</p></div>`;
  return html`
    <section class="page">
      <h1>${say("tab.cluster")}</h1>
      <p class="legend">${PARTS.map((part) => html`<span><i class=${part} />${say(`part.${part}`)}</span>`)}</p>
      <div class="kinds">${kinds.map(([name, kind]) => html`<${Kind} name=${name} kind=${kind} />`)}</div>
      <div class="card"><h2>${say("waiting")} <span class="muted">${number(waiting.length)}</span></h2>
        ${waiting.length ? html`<${Waiting} rows=${live.table("waiting")} version=${live.version("waiting")} open=${open} />` : html`<p class="muted">${say("waiting.none")}</p>`}</div>
      <${Nodes} live=${live} open=${open} />
    </section>`;
}

function Bar({ amounts, label }) {
  const found = parts(amounts);
  const words = `${label}: ${PARTS.filter((part) => found[part]).map((part) => `${say(`part.${part}`)} ${number(found[part])}`).join(", ")}`;
  return html`<span class="stack" role="img" aria-label=${words} title=${words}>${PARTS.map((part) => (found[part] ? html`<i class=${part} style=${{ flexGrow: found[part] }} />` : ""))}</span>`;
}

function Kind({ name, kind }) {
  return html`<div class="card kind">
    <h2>${name || say("kind.any")}</h2>
    <p class="sub">${say("kind.nodes", { count: number(kind.nodes) })}${kind.notReady ? html` · <b class="trouble">✕ ${say("kind.notReady", { count: kind.notReady })}</b>` : ""}${kind.cordoned ? html` · <b class="soft">▲ ${say("kind.cordoned", { count: kind.cordoned })}</b>` : ""}</p>
    ${Object.entries(kind.amounts).map(([resource, amounts]) => html`<${Amounts} resource=${resource} amounts=${amounts} />`)}
    ${kind.superPods.length ? html`<${SuperPods} kind=${kind} />` : ""}
  </div>`;
}

function SuperPods({ kind }) {
  const told = ([id, nodes, free]) => say("superPod.one", { id, free: number(free), nodes: number(nodes) });
  return html`<div class="amounts superpods"><p class="head"><span>${say("superPods")}</span><b>${number(kind.superPods.length)}</b> ${kind.blocks.map(([size, count]) => html`<span> · ${say("superPods.blocks", { count: number(count), size: number(size) })}</span>`)}</p>
    <p class="sums">${kind.superPods.map((one) => html`<span class=${one[2] ? "" : "muted"} title=${told(one)}>${told(one)}</span>`)}</p></div>`;
}

function Amounts({ resource, amounts }) {
  const found = parts(amounts);
  return html`<div class="amounts"><p class="head"><span>${short(resource)}</span><b>${number(found.free)}</b> ${say("kind.freeOf", { all: number(found.all) })}</p>
    <${Bar} amounts=${amounts} label=${resource} />
    <p class="sums">${PARTS.filter((part) => found[part] && part !== "free").map((part) => html`<span class=${part}>${say(`part.${part}`)} <b>${number(found[part])}</b></span>`)}
      ${amounts[5] ? html`<span class="asked">${say("kind.asked")} <b>${number(amounts[5])}</b></span>` : ""}</p></div>`;
}

function Waiting({ rows, version, open }) {
  const ids = useMemo(() => [...rows.keys()].sort((a, b) => rows.get(a).serves - rows.get(b).serves || rows.get(b).reserved - rows.get(a).reserved || (a < b ? -1 : 1)), [rows, version]);
  return html`<${Rows} ids=${ids} height=${80} most=${6} label=${say("waiting")} onOpen=${(id) => open("service", id)} row=${(id) => {
    const one = rows.get(id);
    return html`<div class="line waiting"><span class="who"><strong>${id}</strong><small>${one.serves ? say("waiting.serves") : html`<b class="trouble">✕ ${say("waiting.not")}</b>`}${one.reserved ? ` · ${say("waiting.reserved")}` : ""}</small></span>
      <span class="cell asks">${one.asks.slice(0, 3).map((ask) => html`<span class="clamp">${ask}</span>`)}</span>
      <span class="why"><${Reason} name=${one.reason} /><${Words} name=${one.reason} text=${one.message} lines=${2} /></span></div>`;
  }} />`;
}

function Nodes({ live, open }) {
  const [wanted, want] = useState("");
  const rows = live.table("nodes");
  const version = live.version("nodes");
  const ids = useMemo(() => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (id) => { const row = rows.get(id); const text = `${id} ${row.kind} ${row.state} ${row.trouble} ${row.guests.map((guest) => guest[0]).join(" ")}`.toLowerCase(); return words.every((word) => text.includes(word)); };
    const idle = (row) => Object.values(row.amounts).reduce((sum, amounts) => sum + amounts[3], 0);
    const rank = (row) => (row.state === "notReady" ? 0 : row.state === "cordoned" ? 1 : row.trouble ? 2 : idle(row) ? 3 : 4);
    return [...rows.keys()].filter((id) => !words.length || fits(id)).map((id) => [rank(rows.get(id)), id]).sort((a, b) => a[0] - b[0] || natural(a[1], b[1])).map((one) => one[1]);
  }, [rows, version, wanted]);
  return html`<div class="card"><div class="above"><h2>${say("nodes")} <span class="muted">${number(ids.length)}</span></h2>
      <input type="search" value=${wanted} onInput=${(e) => want(e.target.value)} placeholder=${say("search")} aria-label=${say("search")} /></div>
    <${Rows} ids=${ids} height=${44} most=${14} label=${say("nodes")} onOpen=${(id) => { const guest = rows.get(id).guests[0]; if (guest) open("service", guest[0]); }} row=${(id) => html`<${Node} id=${id} row=${rows.get(id)} />`} />
  </div>`;
}

function Node({ id, row }) {
  const [resource, amounts] = Object.entries(row.amounts)[0] || ["", [0, 0, 0, 0]];
  const shown = row.state === "ready" ? amounts : [amounts[0], 0, amounts[2], amounts[3], amounts[1]];
  const trouble = row.trouble || (row.state === "ready" ? "" : say(`state.node.${row.state}`));
  return html`<div class="line nodes"><span class="who"><strong>${id}</strong><small>${row.superPod >= 0 ? `${say("superPod", { id: row.superPod })} · ` : ""}${row.kind}</small></span>
    <${Bar} amounts=${shown} label=${resource} /><span class="cell num">${amounts[1]}/${amounts[0]}</span>
    <span class="cell">${trouble ? html`<b class=${row.state === "cordoned" ? "soft" : "trouble"}>${row.state === "cordoned" ? "▲" : "✕"} ${trouble}</b>` : ""}</span>
    <span class="cell guests">${row.guests.map(([key, serves]) => html`<span class=${serves ? "" : "idle"}>${key}</span>`)}</span></div>`;
}
