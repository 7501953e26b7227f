import { isListed } from '../../process/env.ts';
import { isSecretVariable } from '../../process/secret-variable.ts';

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The environment of the processes that the model starts: Bash and stdio servers. Secrets, such as
 * the API key of the model, are removed. `pass` names those that stay; a final `*` is a wildcard.
 */
export function toolEnv(env: Env, pass: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined &&
        (isListed(pass, entry[0]) || !isSecretVariable(entry[0], entry[1])),
    ),
  );
}
