/** Which variables a child gets. */
export interface EnvOptions {
  /** The variables to start from; `process.env` by default. */
  readonly base?: Readonly<Record<string, string | undefined>>;
  /**
   * Only these names of `base` are passed on; a trailing `*` matches any ending. By default all
   * are.
   */
  readonly allow?: readonly string[];
  /** Applied last and never filtered; `undefined` removes a name. */
  readonly set?: Readonly<Record<string, string | undefined>>;
}

/** Whether one of the rules names the variable; a trailing `*` matches any ending. */
export const isListed = (rules: readonly string[], name: string): boolean =>
  rules.some((rule) => (rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : name === rule));

/**
 * Builds the complete environment of a child: `base`, filtered by `allow`, then `set` on top.
 * NODE_OPTIONS is not passed on, because it would run the loaders and debuggers of this process
 * inside the child; put it in `set` if you want that.
 *
 * @example
 * ```ts
 * const env = buildEnv({ allow: ['PATH', 'HOME', 'LC_*'], set: { NO_COLOR: '1' } });
 * ```
 */
export function buildEnv({ base = process.env, allow, set = {} }: EnvOptions = {}): Record<
  string,
  string
> {
  const allowed = (name: string): boolean =>
    name !== 'NODE_OPTIONS' && (!allow || isListed(allow, name));
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
