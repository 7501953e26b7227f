import { isSecretVariable } from '../../process/secret-variable.ts';

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The environment for what the model runs: Bash and stdio servers. The keys that this process needs
 * for its model are not theirs; `pass` names those that are, with `*` for any ending.
 */
export function toolEnv(env: Env, pass: readonly string[]): Record<string, string> {
  const passed = (name: string): boolean =>
    pass.some((rule) => (rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : name === rule));
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined && (passed(entry[0]) || !isSecretVariable(entry[0], entry[1])),
    ),
  );
}
