// Edit a rule and see what it would do. Nothing is written to the cluster: the command that would is shown.
import { html, useEffect, useRef, useState } from "./lib.js";
import { gloss, say } from "./words.js";

export function Rule({ name, ask, rule, ns }) {
  const [text, edit] = useState(null);
  const [before, setBefore] = useState("");
  const [field, setField] = useState("");
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState("");
  const latest = useRef(0);
  const load = async () => {
    const found = await ask(`/api/rule?service=${encodeURIComponent(name)}`);
    setProblem(found.problem || "");
    setBefore(found.text ?? "");
    setField(found.key ?? "");
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
  return html`
    <p class="muted">${say("try.text")}</p>
    <div class="try">
      <div>
        <textarea id="rule" wrap="off" spellcheck="false" aria-label=${say("try.label")} value=${text} onInput=${(e) => edit(e.target.value)} rows=${Math.min(26, Math.max(10, text.split("\n").length + 1))} />
        <p class="bar"><button disabled=${!changed} onClick=${load}>${say("try.reset")}</button></p>
      </div>
      <div class="answer" aria-live="polite">
        ${problem ? html`<p class="finding error"><span aria-hidden="true">✕</span> ${problem}</p>` : ""}
        ${answer ? html`<${Answer} answer=${answer} service=${name} changed=${changed} />` : ""}
        ${answer && answer.valid && changed ? html`<${Apply} text=${text} rule=${rule} ns=${ns} field=${field} />` : ""}
      </div>
    </div>`;
}

function Answer({ answer, service, changed }) {
  const findings = answer.findings.map((one) => html`
    <p class=${`finding ${one.level}`}><span aria-hidden="true">${one.level === "error" ? "✕" : "▲"}</span> <b>${say("try.place", { line: one.line, column: one.column })}</b> ${one.message}${one.hint ? html`<br /><small>${one.hint}</small>` : ""}</p>`);
  if (!answer.valid) return html`<h3>${say("try.invalid")}</h3>${findings}<p class="muted">${say("try.keeps")}</p>`;
  return html`${findings}
    <dl class="compare"><dt>${say("try.now")}</dt><dd>${answer.now}</dd><dt>${say("try.then")}</dt><dd class=${answer.now === answer.then ? "" : "new"}>${answer.then}</dd></dl>
    <h3>${say(answer.changes.length ? "try.changes" : changed ? "try.nothing" : "try.same")}</h3>
    <ul class="changes">${answer.changes.map((one) => html`
      <li class=${one.deed || "words"}><b class="deed">${say(`deed.${one.deed || "none"}`)}</b> <strong>${one.name}</strong>${one.service === service ? "" : html` <small>${one.service}</small>`}
        <span class="text">${gloss("reason", one.before) || one.before} → ${gloss("reason", one.after) || one.after}. ${one.words}</span></li>`)}</ul>
    ${answer.left_out ? html`<p class="muted">${say("more", { count: answer.left_out })}</p>` : ""}
    <details><summary>${say("try.plan")}</summary><pre>$ ${answer.command}${"\n"}${answer.plan}</pre></details>
    <details><summary>${say("try.table")}</summary><pre>${answer.table}</pre></details>`;
}

function Apply({ text, rule, ns, field }) {
  const [copied, mark] = useState(false);
  const patch = JSON.stringify({ data: { [field]: text } });
  const command = `kubectl -n ${quoted(ns)} patch configmap ${quoted(rule)} --type=merge -p ${quoted(patch)}`;
  const copy = async () => {
    try { await navigator.clipboard.writeText(command); mark(true); setTimeout(() => mark(false), 2000); } catch { /* it can be marked by hand */ }
  };
  return html`<h3>${say("try.apply")}</h3><p class="muted">${say("try.applyText")}</p><pre class="command">${command}</pre><p class="bar"><button onClick=${copy}>${say(copied ? "copied" : "copy")}</button></p>`;
}

// For a shell: harmless words as they are.
const quoted = (text) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
