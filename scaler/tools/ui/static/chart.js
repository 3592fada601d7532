// Instances of each group over time: what runs as a filled step, what is worked towards as a line,
// moments as marks.
import { html, useLayoutEffect, useRef, useState } from "./lib.js";
import { clock, say } from "./words.js";

const SPANS = [[600, "10m"], [3600, "1h"], [21600, "6h"]];
const LEFT = 92, RIGHT = 12, BAND = 62, GAP = 14;
const LONGEST_NAME = 12; // letters of a group's name that stand beside its band

// The shortest span in which something changed, so that the last change is in sight; the longest
// where nothing did.
function spanOfLastChange(samples, moments, now) {
  const worthy = moments.filter((one) => one.level !== "plain");
  const changes = [...samples.slice(1).map(([at]) => at), ...worthy.map((one) => one.at)];
  const last = Math.max(...changes, -Infinity);
  const fits = SPANS.find(([length]) => last > now - length * 0.9);
  return (fits || SPANS[SPANS.length - 1])[0];
}

const step = (points, x, y) => points.map(([at, value], i) => {
  const along = x(at).toFixed(1);
  return `${i ? `H${along}V` : `M${along} `}${y(value).toFixed(1)}`;
}).join("");

export function Chart({ groups, samples, moments, totals, now }) {
  const [chosen, choose] = useState(0);
  const opened = useRef(0);
  if (!opened.current && samples.length) opened.current = spanOfLastChange(samples, moments, now);
  const span = chosen || opened.current || SPANS[0][0];
  const [wide, setWide] = useState(800);
  const box = useRef(null);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setWide(Math.max(320, box.current.clientWidth)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const from = now - span;
  const inSight = (at) => Math.max(from, Math.min(now, at));
  const x = (at) => LEFT + ((inSight(at) - from) / span) * (wide - LEFT - RIGHT);
  const bands = groups.map((name) => band(name, samples, from, now));
  if (totals.length) {
    const points = totals.filter(([at]) => at >= from && at <= now);
    bands.push({ name: say("chart.all"), points, most: 0 });
  }
  const tall = bands.length * (BAND + GAP) + 44;
  const marks = notable(moments.filter((one) => one.at >= from), span / 60);
  return html`
    <div class="chart" ref=${box}>
      <div class="spans" role="group" aria-label=${say("chart.span")}>
        ${SPANS.map(([length, name]) => html`
          <button class=${span === length ? "here" : ""} aria-pressed=${span === length}
            onClick=${() => choose(length)}>${name}</button>`)}
        <span class="legend">
          <span><i class="run" />${say("chart.running")}</span>
          <span><i class="aim" />${say("chart.target")}</span>
          <span><i class="gone" />${say("chart.unknown")}</span>
        </span>
      </div>
      <svg width=${wide} height=${tall} viewBox=${`0 0 ${wide} ${tall}`} role="img"
        aria-label=${say("chart.words", { groups: groups.join(", ") })}>
        ${bands.map((one, i) => html`
          <${Band} one=${one} top=${i * (BAND + GAP) + 4} x=${x} wide=${wide} />`)}
        <${Axis} from=${from} now=${now} x=${x} y=${tall - 34} wide=${wide} />
        ${marks.map((one) => html`<${Mark} one=${one} x=${x(one.at)} y=${tall - 34} />`)}
      </svg>
    </div>`;
}

// What is worth a mark: trouble, and its end; of what happened at one time the worst.
function notable(moments, near) {
  const found = [];
  for (const level of ["bad", "warning", "good"]) {
    for (const one of moments) {
      const counts = one.level === level && (level !== "good" || one.kind === "condition");
      if (counts && !found.some((other) => Math.abs(other.at - one.at) < near)) found.push(one);
    }
  }
  return found;
}

function band(name, samples, from, now) {
  const known = samples.map(([at, by]) => [at, by[name] || [0, 0, 0, 0]]);
  const points = [];
  for (const [at, counts] of known) {
    if (at < from) points[0] = [from, counts];
    else points.push([at, counts]);
  }
  if (points.length) points.push([now, points[points.length - 1][1]]);
  return {
    name,
    points: points.map(([at, counts]) => [at, counts[0]]),
    aims: points.map(([at, counts]) => [at, counts[1]]),
    most: Math.max(1, ...points.map(([, counts]) => Math.max(counts[0], counts[1]))),
  };
}

const cut = (name) =>
  name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;

// The last value of a line; "–" for none.
const lastOf = (points) => (points.length ? points[points.length - 1][1] : "–");

function Band({ one, top, x, wide }) {
  const most = Math.max(1, one.most, ...one.points.map(([, value]) => value));
  const y = (value) => top + BAND - (value / most) * (BAND - 6);
  const begin = one.points.length ? x(one.points[0][0]) : wide - RIGHT;
  const line = one.points.length ? step(one.points, x, y) : "";
  const aims = one.aims || [];
  return html`
    <text class="name" x="0" y=${top + 18}><title>${one.name}</title>${cut(one.name)}</text>
    <text class="sum" x="0" y=${top + 38}>${
      lastOf(one.points)}${aims.length ? `/${lastOf(aims)}` : ""}</text>
    <text class="tick" x=${LEFT - 8} y=${y(most) + 4} text-anchor="end">${most}</text>
    <text class="tick" x=${LEFT - 8} y=${y(0) + 1} text-anchor="end">0</text>
    ${begin > LEFT + 1 ? html`
      <rect class="unknown" x=${LEFT} y=${top} width=${begin - LEFT} height=${BAND} />` : ""}
    ${line ? html`<path class="area" d=${`${line}V${y(0)}H${begin}Z`} />
      <path class="run" d=${line} />` : ""}
    ${aims.length ? html`<path class="aim" d=${step(aims, x, y)} />` : ""}
    <line class="base" x1=${LEFT} x2=${wide - RIGHT} y1=${y(0)} y2=${y(0)} />`;
}

function Axis({ from, now, x, y, wide }) {
  const count = Math.max(2, Math.min(6, Math.floor((wide - LEFT) / 130)));
  const ticks = Array.from({ length: count + 1 }, (_, i) => from + ((now - from) * i) / count);
  const anchor = (i) => (i === count ? "end" : i ? "middle" : "start");
  return html`${ticks.map((at, i) => html`
    <text class="tick" x=${x(at)} y=${y + 30} text-anchor=${anchor(i)}>${clock(at)}</text>`)}`;
}

const SHAPES = {
  bad: "M-4-4L4 4M4-4L-4 4",
  warning: "M0-5L5 4H-5Z",
  good: "M0-4A4 4 0 1 0 0 4A4 4 0 1 0 0-4",
};

function Mark({ one, x, y }) {
  const words = `${clock(one.at)} ${one.subject} ${one.reason} ${one.text}`;
  return html`
    <g class=${`moment ${one.level}`} transform=${`translate(${x.toFixed(1)} ${y + 8})`}>
      <title>${words}</title><path d=${SHAPES[one.level] || "M-3-3H3V3H-3Z"} />
    </g>`;
}
