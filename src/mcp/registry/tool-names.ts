const PREFIX = 'mcp__';

/** Returns the name of a tool as the model sees it; the protocol uses the name without prefix. */
export const toolName = (server: string, tool: string): string => `${PREFIX}${server}__${tool}`;

/**
 * Splits a name of `toolName` into its parts; `undefined` for any other name, such as that of a
 * built-in tool. The server name ends at the first `__`, so a server name that contains `__` is not
 * returned in full.
 */
export function parseToolName(
  name: string,
): { readonly server: string; readonly tool: string } | undefined {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  return server === undefined || tool === undefined ? undefined : { server, tool };
}

/**
 * Whether a rule of `allowedTools` covers a tool. A rule is a name, `mcp__server` for all tools of
 * a server, or a pattern in which `*` matches any characters (`mcp__cci__*`).
 */
export function matchesToolName(rule: string, name: string): boolean {
  if (rule === name) return true;
  if (rule.includes('*')) return glob(rule, name);
  return rule.startsWith(PREFIX) && !rule.slice(PREFIX.length).includes('__')
    ? name.startsWith(`${rule}__`)
    : false;
}

/**
 * Matches by position instead of a regular expression, so a rule with many stars takes linear time.
 */
function glob(rule: string, name: string): boolean {
  const [head = '', ...rest] = rule.split('*');
  const tail = rest.pop() ?? '';
  if (!name.startsWith(head)) return false;
  let at = head.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - tail.length >= at && name.endsWith(tail);
}
