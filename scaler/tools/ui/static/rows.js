// A list of any length: only the rows in sight are in the document. Arrow keys, Home, End and Page
// keys move, Enter opens.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";

const SPARE = 6; // rows beyond the edge
const NARROW = "(max-width: 700px)"; // also in style.css

// Whether the window is a phone's, or enlarged: rows of a list then stand below each other, and are
// higher.
export function useNarrow() {
  const [narrow, set] = useState(matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const changed = () => set(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}

export function Rows({ ids, height, row, label, onOpen, fill = false, most = 0 }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [tall, setTall] = useState(600);
  const [chosen, choose] = useState(null);
  useLayoutEffect(() => {
    const measure = () => box.current && setTall(box.current.clientHeight);
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    if (box.current && box.current.scrollTop !== top) setTop(box.current.scrollTop);
  }, [ids.length]);

  const at = ids.indexOf(chosen);
  const move = (to) => {
    const index = Math.max(0, Math.min(ids.length - 1, to));
    choose(ids[index]);
    const view = box.current;
    if (index * height < view.scrollTop) view.scrollTop = index * height;
    const below = (index + 1) * height - view.clientHeight;
    if (view.scrollTop < below) view.scrollTop = below;
  };
  const page = Math.max(1, Math.floor(tall / height) - 1);
  const steps = {
    ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
    Home: 0, End: ids.length - 1, j: at + 1, k: at - 1,
  };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !ids.length) return;
    if (event.key in steps) {
      event.preventDefault();
      move(steps[event.key]);
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0 && onOpen) {
      event.preventDefault();
      onOpen(ids[at]);
    }
  };

  const first = Math.max(0, Math.floor(top / height) - SPARE);
  const last = Math.min(ids.length, Math.ceil((top + tall) / height) + SPARE);
  const shown = ids.slice(first, last).map((id, i) => {
    const index = first + i;
    const place = { transform: `translateY(${index * height}px)`, height: `${height}px` };
    const clicked = () => {
      choose(id);
      if (onOpen) onOpen(id);
    };
    return html`<div key=${id} id=${`row-${label}-${index}`} role="option"
      aria-selected=${id === chosen} aria-posinset=${index + 1} aria-setsize=${ids.length}
      class=${id === chosen ? "row chosen" : "row"} style=${place}
      onClick=${clicked}>${row(id, index)}</div>`;
  });
  const size = { height: `${Math.min(ids.length, most || ids.length) * height + 2}px` };
  const focused = () => {
    if (at < 0 && ids.length) choose(ids[0]);
  };
  return html`<div ref=${box} class=${fill ? "rows fill" : "rows"} style=${size} tabindex="0"
      role="listbox" aria-label=${label}
      aria-activedescendant=${at >= first && at < last ? `row-${label}-${at}` : undefined}
      onScroll=${(e) => setTop(e.currentTarget.scrollTop)} onKeyDown=${pressed}
      onFocus=${focused}>
    <div class="tall" style=${{ height: `${ids.length * height}px` }}>${shown}</div>
  </div>`;
}
