// The library (vendor/), and what every module of the page uses of it. Text is only ever text:
// nothing here sets HTML.
const { h, render, Fragment } = window.preact;
const { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } = window.preactHooks;
export const html = window.htm.bind(h);
export { h, render, Fragment, useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect };

export const remember = (name, value) => {
  try { localStorage.setItem(`scaler.${name}`, value); } catch { /* private windows may refuse */ }
};
export const recall = (name) => {
  try { return localStorage.getItem(`scaler.${name}`); } catch { return null; }
};

// Names as people sort them: npu-2 before npu-10.
export const natural = new Intl.Collator(undefined, { numeric: true }).compare;

// Re-render when a store changes, at most once a frame.
export function useStore(store) {
  const [, set] = useState(0);
  useEffect(() => store.subscribe(() => set((n) => n + 1)), [store]);
  return store;
}
