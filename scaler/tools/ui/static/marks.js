// Pictures of states. A shape and a word for each, never a colour alone.
import { html } from "./lib.js";
import { say } from "./words.js";

export const RANKS = ["unavailable", "invalid", "degraded", "incomplete", "complete"];
const SHAPES = {
  unavailable: "M4.6 1h6.8L15 4.6v6.8L11.4 15H4.6L1 11.4V4.6z",
  invalid: "M8 1l7.5 14H.5z",
  degraded: "M.8 2h14.4L8 15z",
  incomplete: "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1zm0 2a5 5 0 0 1 0 10z",
  complete: "M6.4 13L1.5 8.2l1.8-1.8 3.1 3 6.3-6.3 1.8 1.8z",
};
const STATES = {
  Running: "M6.4 13L1.5 8.2l1.8-1.8 3.1 3 6.3-6.3 1.8 1.8z",
  Starting: "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1zm0 2a5 5 0 0 1 0 10z",
  Admitted: "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1zm0 2v5h5a5 5 0 1 1-5-5z",
  Held: "M4 2h3v12H4zM9 2h3v12H9z",
  Broken: "M4.6 1h6.8L15 4.6v6.8L11.4 15H4.6L1 11.4V4.6z",
  Terminating: "M2 6.5h12v3H2z",
  Finished: "M3 3h10v10H3z",
};

export const Rank = ({ rank, size = 16 }) => html`
  <svg class=${`mark ${RANKS[rank]}`} width=${size} height=${size} viewBox="0 0 16 16" role="img"
    aria-label=${say(`rank.${RANKS[rank]}`)}>
    <path d=${SHAPES[RANKS[rank]]} />
  </svg>`;

export const StateMark = ({ state }) => html`
  <svg class=${`mark state-${state}`} width="14" height="14" viewBox="0 0 16 16"
    aria-hidden="true"><path d=${STATES[state] || STATES.Finished} /></svg>`;

function kindOfStep({ current, aim, limit }, index) {
  if (current >= 0 && index >= current) return "reached";
  if (aim >= 0 && index >= aim) return "aim";
  return index < limit ? "unwanted" : "beyond";
}

// All ratios of a rule as a stair, the smallest at the left: reached, worked towards, beyond.
export function Ladder({ row, width = 112, height = 30 }) {
  const { steps, current, aim } = row;
  const count = steps.length;
  if (!count) return html`<span class="ladder none">—</span>`;
  const gap = count > 24 ? 0 : count > 12 ? 1 : 3;
  const wide = Math.min(20, (width - gap * (count - 1)) / count);
  const picture = steps.map((_, place) => {
    const index = count - 1 - place;
    const tall = count === 1 ? height : height * (0.3 + (0.7 * place) / (count - 1));
    const x = place * (wide + gap);
    return html`<rect class=${kindOfStep(row, index)} x=${x + 0.75} y=${height - tall + 0.75}
      width=${Math.max(1, wide - 1.5)} height=${tall - 1.5} rx="1.5" />`;
  });
  const words = say("ladder.words", {
    runs: current >= 0 ? steps[current].join("+") : say("ladder.nothing"),
    aim: aim >= 0 ? steps[aim].join("+") : "-",
    count,
  });
  return html`
    <svg class="ladder" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}
      role="img" aria-label=${words}><title>${words}</title>${picture}</svg>`;
}

function kindOfCell(i, running, target, inFlight) {
  if (i < running) return i < target ? "on" : "more";
  return i < running + inFlight ? "half" : "off";
}

// One group: running, in flight, missing. Many instances become one bar.
export function Group({ name, counts }) {
  const [running, target, inFlight, held] = counts;
  const all = Math.max(target, running + inFlight);
  const words = say("group.words", { name, running, target, inFlight, held });
  const share = (count) => `${(100 * count) / all}%`;
  const cells = all <= 12
    ? Array.from({ length: all }, (_, i) => html`
      <i class=${kindOfCell(i, running, target, inFlight)} />`)
    : html`<b class="bar"
        style=${{ "--on": share(running), "--half": share(running + inFlight) }} />`;
  return html`
    <span class="group" title=${words} role="img" aria-label=${words}>
      <span class="name">${name}</span><span class="cells">${cells}</span>
      <span class="sum">${running}/${target}</span>
    </span>`;
}
