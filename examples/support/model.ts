import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { SessionOptions } from 'duolane/host';

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The model of a run, as options of a session: `DUOLANE_MODEL` if it is set, else Anthropic's or an
 * OpenAI-compatible one if there is a key or an address for it, else the file `model` beside the
 * caller (its `import.meta.url`), which is a set of rules and no language model.
 */
export function modelOptions(
  caller: string,
  env: Env = process.env,
): Pick<SessionOptions, 'model' | 'executableArgs'> {
  const { DUOLANE_MODEL, ANTHROPIC_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL = 'default' } = env;
  if (DUOLANE_MODEL) return { model: DUOLANE_MODEL };
  if (ANTHROPIC_API_KEY) return { model: 'anthropic:claude-sonnet-4-5' };
  if (OPENAI_BASE_URL) return { model: `openai:${OPENAI_MODEL}@${OPENAI_BASE_URL}` };
  const isSource = caller.endsWith('.ts');
  const file = fileURLToPath(new URL(isSource ? './model.ts' : './model.js', caller));
  return {
    model: `module:${file}`,
    // From source, the CLI needs help to load TypeScript.
    ...(isSource && { executableArgs: ['--import', typescriptLoader()] }),
  };
}

const typescriptLoader = (): string =>
  pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
