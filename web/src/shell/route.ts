/** What the hash of the address shows. */
export type Route =
  | { readonly view: 'runs' }
  | { readonly view: 'inbox' }
  | { readonly view: 'tools' }
  | { readonly view: 'task'; readonly task: string; readonly entry: number | undefined };

/** Reads a hash: `#` all runs, `#/inbox`, `#/tools`, `#<task>`, `#<task>/<entry>`. */
export function parseRoute(hash: string): Route {
  const path = decode(hash.replace(/^#/, ''));
  if (path === '' || path === '/') return { view: 'runs' };
  if (path === '/inbox') return { view: 'inbox' };
  if (path === '/tools') return { view: 'tools' };
  const [, task = path, entry] = /^(.+)\/(\d{1,9})$/.exec(path) ?? [];
  return { view: 'task', task, entry: entry === undefined ? undefined : Number(entry) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that a person typed
  }
}
