// The page: head, what must be known first, and one of three views by the address after the #.
import { html, recall, remember, render, useEffect, useState, useStore } from "./lib.js";
import { backToList, open, read } from "./address.js";
import { ask, Live, takeToken } from "./live.js";
import { age, clock, LANGUAGES, language, say, speak, usual } from "./words.js";
import { Services } from "./services.js";
import { Service } from "./service.js";
import { Cluster } from "./cluster.js";

const live = new Live();
window.scalerPage = live; // for tests and for whoever debugs the page

const address = ({ view, key }) =>
  view === "service" ? `view=service&service=${encodeURIComponent(key)}` : `view=${view}`;

function App() {
  useStore(live);
  const [where, go] = useState(read());
  const [, redraw] = useState(0);
  useEffect(() => {
    const moved = () => { go(read()); document.querySelector("main")?.focus(); };
    addEventListener("hashchange", moved);
    const tick = setInterval(() => redraw((n) => n + 1), 1000); // ages
    return () => { removeEventListener("hashchange", moved); clearInterval(tick); };
  }, []);
  useEffect(() => live.watch(address(where)), [where.view, where.key]);
  useEffect(() => shortcuts(where), [where.view]);
  const changeLanguage = async (to) => {
    await speak(to);
    redraw((n) => n + 1);
  };
  const View = { services: Services, service: Service, cluster: Cluster }[where.view];
  return html`
    <${Head} where=${where} changeLanguage=${changeLanguage} />
    <${Notices} />
    <main tabindex="-1">
      ${live.link === "refused" ? html`<${Refused} />`
        : html`<${View} live=${live} key=${where.view + where.key} name=${where.key}
            filter=${where.filter} open=${open} ask=${ask} />`}
    </main>`;
}

function Head({ where, changeLanguage }) {
  const head = live.head;
  const isIn = (view) => where.view === view || (view === "services" && where.view === "service");
  const tab = (view, href) => html`
    <a href=${href} class=${isIn(view) ? "tab here" : "tab"}
       aria-current=${where.view === view ? "page" : undefined}>${say(`tab.${view}`)}</a>`;
  const namespaces = (head.namespaces || []).length ? ` · ${head.namespaces.join(", ")}` : "";
  return html`
    <header>
      <img src="/static/icon.svg" alt="" width="22" height="22" />
      <span class="product">scaler</span>
      <nav aria-label=${say("nav")}>
        ${tab("services", backToList())}${tab("cluster", "#/cluster")}
      </nav>
      <span class="space"></span>
      <span class="where" title=${say("where.title")}>${head.cluster || ""}${namespaces}</span>
      <${Link} head=${head} />
      <button class="plain" onClick=${theme} title=${say("theme")}
        aria-label=${say("theme")}>◐</button>
      <label class="hidden" for="language">${say("language")}</label>
      <select id="language" value=${language} onChange=${(e) => changeLanguage(e.target.value)}>
        ${Object.entries(LANGUAGES).map(([id, name]) => html`
          <option value=${id} selected=${id === language}>${name}</option>`)}
      </select>
    </header>`;
}

// How current all that is shown is. "live" only while the API server answers; when the page changed
// last is beside it.
function Link({ head }) {
  const at = standing(head);
  const since = age(live.now() - live.changedAt);
  const changed = live.changedAt ? say("link.changed", { age: since }) : "";
  const words = say(`link.${at}`, { age: staleAge(head) });
  return html`
    <span class=${`link ${at}`} role="status" title=${say("link.title")}>${words}</span>
    ${at === "live" || at === "stale" ? html`
      <span class="changed" title=${say("link.changedTitle")}>${changed}</span>` : ""}`;
}

function standing(head) {
  if (live.link !== "live") return live.link;
  if (head.staleSince) return "stale";
  return head.reading ? "reading" : "live";
}

const staleAge = (head) => age(live.now() - head.staleSince);

// What is not seen changes what everything else here means, so it comes first.
function Notices() {
  const { gaps = [], alone = "", scaler = null } = live.head;
  const shown = [];
  if (live.link === "lost") {
    shown.push(["bad", say("notice.lost", { age: age(live.now() - live.serverNow) })]);
  } else if (live.head.staleSince) {
    const about = { age: staleAge(live.head), since: clock(live.head.staleSince) };
    shown.push(["warn", say("notice.stale", about)]);
  }
  if (scaler && scaler.found > 0 && scaler.atWork === 0) {
    shown.push(["bad", say("notice.noScaler")]);
  }
  if (scaler && scaler.blind) shown.push(["bad", say("notice.blind", { since: scaler.blind })]);
  if (scaler && scaler.found === 0) {
    const unknown = () => say("notice.unknownScaler", { why: scaler.unread });
    shown.push(["warn", scaler.unread ? unknown() : say("notice.noLease")]);
  }
  const missing = gaps.filter((gap) => gap.installed);
  if (missing.length) {
    const named = missing.map((gap) => `${gap.resource}: ${gap.why}`);
    shown.push(["warn", say("notice.gaps"), named]);
  }
  const isAbsent = (gap) => !gap.installed && gap.resource.startsWith("elasticservices");
  if (!live.head.speed && gaps.some(isAbsent)) shown.push(["warn", say("notice.notInstalled")]);
  if (alone) shown.push(["warn", say("notice.alone", { why: alone })]);
  if (!shown.length) return "";
  return html`<aside aria-label=${say("notices")}>${shown.map(([level, words, more]) => html`
    <div class=${`notice ${level}`} role=${level === "bad" ? "alert" : "note"}>
      <span aria-hidden="true">${level === "bad" ? "✕" : "▲"}</span>
      ${more ? html`<details><summary>${words} (${more.length})</summary>
        <ul>${more.map((line) => html`<li>${line}</li>`)}</ul></details>`
        : html`<span>${words}</span>`}
    </div>`)}</aside>`;
}

const Refused = () => html`<div class="empty">
  <h1>${say("refused.title")}</h1><p>${say("refused.text")}</p></div>`;

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  wear(now === "dark" ? "light" : "dark");
}

function wear(name) {
  document.documentElement.dataset.theme = name;
  remember("theme", name);
}

function shortcuts(where) {
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) event.target.blur();
    else if (event.key === "Escape" && where.view !== "services") open("services");
    else if (typing) return;
    else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("input[type=search]")?.focus();
    }
    else if (event.key === "s") open("services");
    else if (event.key === "c") open("cluster");
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

takeToken();
if (recall("theme")) wear(recall("theme"));
speak(usual()).then(() => render(html`<${App} />`, document.getElementById("app")));
live.watch(address(read()));
