export interface EnvOptions {
  /** What to start from; `process.env` unless told otherwise. */
  readonly base?: Readonly<Record<string, string | undefined>>;
  /** Only these names of `base` are passed on; a trailing `*` stands for any ending. Without it, all are. */
  readonly allow?: readonly string[];
  /** Set last, and never filtered; `undefined` removes a name. */
  readonly set?: Readonly<Record<string, string | undefined>>;
}

/**
 * The whole environment of a child, by one rule: `base`, cut down to `allow`, then `set` on top.
 * NODE_OPTIONS is not passed on, since it would run this process's loaders and debuggers inside the
 * child; give it in `set` when that is wanted.
 */
export function buildEnv({ base = process.env, allow, set = {} }: EnvOptions = {}): Record<
  string,
  string
> {
  const allowed = (name: string): boolean =>
    name !== 'NODE_OPTIONS' &&
    (allow?.some((rule) =>
      rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : name === rule,
    ) ??
      true);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(base)) {
    if (value !== undefined && allowed(name)) env[name] = value;
  }
  for (const [name, value] of Object.entries(set)) {
    if (value === undefined) delete env[name];
    else env[name] = value;
  }
  return env;
}
