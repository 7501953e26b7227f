const PREFIX = 'mcp__';

/** A tool's name as the model sees it; inside the protocol it is the bare name. */
export const toolName = (server: string, tool: string): string => `${PREFIX}${server}__${tool}`;

/**
 * The parts of a name that `toolName` made; undefined for any other (built-in tools). The server's
 * name ends at the first `__`, so a server whose name holds `__` does not come back whole.
 */
export function parseToolName(
  name: string,
): { readonly server: string; readonly tool: string } | undefined {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  return server === undefined || tool === undefined ? undefined : { server, tool };
}

/**
 * Whether a rule of `allowedTools` covers a tool: the name itself, `mcp__server` for all tools of
 * a server, or a pattern in which `*` stands for any run of characters (`mcp__cci__*`).
 */
export function matchesToolName(rule: string, name: string): boolean {
  if (rule === name) return true;
  if (rule.includes('*')) return glob(rule, name);
  return rule.startsWith(PREFIX) && !rule.slice(PREFIX.length).includes('__')
    ? name.startsWith(`${rule}__`)
    : false;
}

/** By position instead of a regular expression: a rule with many stars stays linear. */
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
