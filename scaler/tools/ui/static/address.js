// What stands after the # of the address: the view, the service, and what the list shows. A link to
// a list keeps its filter.
export const EVERYTHING = { q: "", rank: "", ns: "", sort: "" };

let lastList = "#/";

// The view and what it is about. `filter` has a text for each name of EVERYTHING.
export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  if (view === "service") return { view, key: decoded(rest.join("/")), filter: EVERYTHING };
  const asked = new URLSearchParams(query);
  const filter = {};
  for (const name of Object.keys(EVERYTHING)) filter[name] = asked.get(name) || "";
  const place = { view: view === "cluster" ? "cluster" : "services", key: "", filter };
  if (place.view === "services") lastList = listAddress(filter);
  return place;
}

export function listAddress(filter) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value) asked.set(name, value);
  const query = asked.toString();
  return query ? `#/?${query}` : "#/";
}

// The list as it was looked at last.
export const backToList = () => lastList;

// Show this filter in the address, without a new entry in the browser's history for each letter.
export function showFilter(filter) {
  lastList = listAddress(filter);
  history.replaceState(null, "", location.pathname + lastList);
}

export function open(view, key = "") {
  if (view === "services") location.hash = lastList;
  else location.hash = key ? `#/${view}/${encodeURIComponent(key)}` : `#/${view}`;
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; } // an address that was typed
}
