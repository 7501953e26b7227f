import { DuolaneError } from '../../errors.ts';
import type { Model } from './types.ts';

export interface ModelPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where `script:`, `module:` and `ai-sdk:` paths start. */
  readonly cwd: string;
}

/** A model and the name under which its provider knows it. */
export interface ChosenModel {
  readonly model: Model;
  /** What goes into the request. */
  readonly id: string;
}

const DRIVERS =
  'script:<file>, module:<file>, ai-sdk:<module>, openai:<model>[@<url>], anthropic:<model>';

/**
 * The model that a name stands for: `script:./x.json`, `module:./m.js`, `ai-sdk:./provider.js`,
 * `openai:llama3@http://localhost:11434/v1`, `anthropic:<model>`; a bare name is Anthropic's when a key
 * or a base URL for it is there. `DUOLANE_MODEL` is the default and also what a bare name is given
 * to when it has a driver. Drivers are loaded when they are chosen. Throws `invalid` in words.
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
      `no model was chosen: give --model, or set DUOLANE_MODEL, to one of ${DRIVERS}`,
    );
  }
  const [, driver, rest = ''] =
    /^(script|module|ai-sdk|openai|anthropic):([\s\S]+)$/.exec(wanted) ?? [];
  switch (driver) {
    case 'script': {
      const { scriptModel } = await import('./script.ts');
      return { model: scriptModel(wanted, await loadData(rest, place.cwd)), id: wanted };
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
  // A host that always names a model of its own still gets the one that was set up here.
  const preset = env['DUOLANE_MODEL'];
  if (preset && preset !== name && /^[a-z-]+:/.test(preset)) return chooseModel(preset, place);
  throw new DuolaneError(
    'invalid',
    `no provider for the model ${name}: set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or choose one of ${DRIVERS}`,
  );
}

async function openAi(name: string, rest: string, env: ModelPlace['env']): Promise<ChosenModel> {
  const at = rest.search(/@https?:\/\//);
  const baseUrl = at === -1 ? env['OPENAI_BASE_URL'] : rest.slice(at + 1);
  if (!baseUrl) {
    throw new DuolaneError(
      'invalid',
      `${name} needs an address: openai:<model>@<url>, or OPENAI_BASE_URL`,
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
  // Another address may want none; the provider's own always does.
  if (!apiKey && !authToken && !baseUrl) {
    throw new DuolaneError(
      'invalid',
      `${name} needs a key: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server that wants none`,
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

async function loadDefault(path: string, cwd: string): Promise<unknown> {
  // A path, or the name of an installed package.
  const place = /^(\.|\/|[A-Za-z]:[\\/])/.test(path) ? await fileUrl(path, cwd) : path;
  try {
    const loaded = (await import(place)) as { readonly default?: unknown };
    return loaded.default;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `the model's module ${path} could not be loaded: ${why}`, {
      cause,
    });
  }
}

async function loadData(path: string, cwd: string): Promise<unknown> {
  if (!path.endsWith('.json')) return loadDefault(path, cwd);
  const [{ readFile }, url] = await Promise.all([import('node:fs/promises'), fileUrl(path, cwd)]);
  try {
    return JSON.parse(await readFile(new URL(url), 'utf8')) as unknown;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `the script ${path} could not be read: ${why}`, { cause });
  }
}
