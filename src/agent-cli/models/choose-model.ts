import { DuolaneError, errorMessage } from '../../errors.ts';
import type { Model } from './types.ts';

export interface ModelPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The directory at which relative paths of `script:`, `module:` and `ai-sdk:` start. */
  readonly cwd: string;
}

/** A model and its id at the provider. */
export interface ChosenModel {
  readonly model: Model;
  /** The model id of the request, without the prefix of the driver. */
  readonly id: string;
}

const DRIVERS =
  'script:<file or JSON>, module:<file>, ai-sdk:<module>, openai:<model>[@<url>], anthropic:<model>';

/**
 * Creates the model of a name: `script:./x.json`, `script:[…]`, `module:./m.js`,
 * `ai-sdk:./provider.js`, `openai:llama3@http://localhost:11434/v1` or `anthropic:<model>`. A name
 * without a driver is one of Anthropic if the environment has a key or a base URL for it; otherwise
 * `DUOLANE_MODEL` replaces it if that names a driver. `DUOLANE_MODEL` is also the default. A driver
 * is loaded when it is chosen. Throws `invalid` if no driver fits.
 */
export async function chooseModel(
  name: string | undefined,
  place: ModelPlace,
): Promise<ChosenModel> {
  const { env } = place;
  const wanted = name ?? env['DUOLANE_MODEL'];
  if (wanted === undefined || wanted === '') {
    throw new DuolaneError(
      'invalid',
      `missing model; set --model or DUOLANE_MODEL to one of ${DRIVERS}`,
    );
  }
  const [, driver, rest = ''] =
    /^(script|module|ai-sdk|openai|anthropic):([\s\S]+)$/.exec(wanted) ?? [];
  switch (driver) {
    case 'script': {
      const { scriptModel } = await import('./script.ts');
      // The messages of an inline script would be a poor name in every result.
      const id = rest.startsWith('[') ? 'script' : wanted;
      return { model: scriptModel(id, await loadScript(rest, place.cwd)), id };
    }
    case 'module': {
      const { moduleModel } = await import('./module.ts');
      return { model: moduleModel(wanted, await loadDefault(rest, place.cwd)), id: wanted };
    }
    case 'ai-sdk': {
      const { aiSdkModel } = await import('./ai-sdk.ts');
      return { model: aiSdkModel(wanted, await loadDefault(rest, place.cwd)), id: wanted };
    }
    case 'openai':
      return openAi(wanted, rest, env);
    case 'anthropic':
      return anthropic(wanted, rest, env);
    default:
      return bare(wanted, place);
  }
}

async function bare(name: string, place: ModelPlace): Promise<ChosenModel> {
  const { env } = place;
  if (env['ANTHROPIC_API_KEY'] || env['ANTHROPIC_AUTH_TOKEN'] || env['ANTHROPIC_BASE_URL']) {
    return anthropic(name, name, env);
  }
  // Some hosts always pass a model name of their vendor. The model of this machine replaces it.
  const preset = env['DUOLANE_MODEL'];
  if (preset && preset !== name && /^[a-z-]+:/.test(preset)) return chooseModel(preset, place);
  throw new DuolaneError(
    'invalid',
    `unknown model "${name}"; set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or use one of ${DRIVERS}`,
  );
}

async function openAi(name: string, rest: string, env: ModelPlace['env']): Promise<ChosenModel> {
  const at = rest.search(/@https?:\/\//);
  const baseUrl = at === -1 ? env['OPENAI_BASE_URL'] : rest.slice(at + 1);
  if (!baseUrl) {
    throw new DuolaneError(
      'invalid',
      `missing URL of model "${name}": expected openai:<model>@<url>, or set OPENAI_BASE_URL`,
    );
  }
  const { openAiModel } = await import('./openai.ts');
  const model = openAiModel({ name, baseUrl, apiKey: env['OPENAI_API_KEY'] });
  return { model, id: at === -1 ? rest : rest.slice(0, at) };
}

async function anthropic(name: string, id: string, env: ModelPlace['env']): Promise<ChosenModel> {
  const apiKey = env['ANTHROPIC_API_KEY'];
  const authToken = env['ANTHROPIC_AUTH_TOKEN'];
  const baseUrl = env['ANTHROPIC_BASE_URL'];
  // A server at another base URL may need no key; the provider's own server always does.
  if (!apiKey && !authToken && !baseUrl) {
    throw new DuolaneError(
      'invalid',
      `missing key for model "${name}"; set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server without keys`,
    );
  }
  const { anthropicModel } = await import('./anthropic.ts');
  const model = anthropicModel({
    name,
    baseUrl: baseUrl || 'https://api.anthropic.com',
    apiKey,
    authToken,
  });
  return { model, id };
}

async function fileUrl(path: string, cwd: string): Promise<string> {
  const [url, paths] = await Promise.all([import('node:url'), import('node:path')]);
  return url.pathToFileURL(paths.resolve(cwd, path)).href;
}

/** The default export of a module: a path, or the name of an installed package. */
async function loadDefault(path: string, cwd: string): Promise<unknown> {
  const specifier = /^(\.|\/|[A-Za-z]:[\\/])/.test(path) ? await fileUrl(path, cwd) : path;
  try {
    const loaded = (await import(specifier)) as { readonly default?: unknown };
    return loaded.default;
  } catch (cause) {
    throw new DuolaneError('invalid', `cannot load module "${path}": ${errorMessage(cause)}`, {
      cause,
    });
  }
}

/** The messages of a script: JSON, a JSON file, or the default export of a module. */
async function loadScript(script: string, cwd: string): Promise<unknown> {
  const inline = script.startsWith('[');
  if (!inline && !script.endsWith('.json')) return loadDefault(script, cwd);
  try {
    return JSON.parse(inline ? script : await readText(script, cwd)) as unknown;
  } catch (cause) {
    const name = inline ? 'inline script' : `script "${script}"`;
    throw new DuolaneError('invalid', `cannot read ${name}: ${errorMessage(cause)}`, { cause });
  }
}

async function readText(path: string, cwd: string): Promise<string> {
  const [{ readFile }, url] = await Promise.all([import('node:fs/promises'), fileUrl(path, cwd)]);
  return readFile(new URL(url), 'utf8');
}
