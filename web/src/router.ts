/** Routes in the fragment of the address, so that the server needs one page and logs no route. */
import { useEffect, useState } from "preact/hooks";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

export function readRoute(): Route {
  const [path = "", search = ""] = location.hash.replace(/^#/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const changed = () => setRoute(readRoute());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export function href(parts: (string | number)[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const search = new URLSearchParams(given);
  return "#/" + parts.map((part) => encodeURIComponent(part)).join("/") + (search.size ? `?${search}` : "");
}

export function navigate(target: string): void {
  location.hash = target.replace(/^#/, "");
}

/** Replaces the query of the current route without a new history entry. */
export function replaceQuery(query: Record<string, string | undefined>): void {
  history.replaceState(null, "", href(readRoute().parts, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
