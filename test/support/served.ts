// Helpers for the tests of the examples: one served module, called with fetch alone.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AgentModule, type Served, serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { Caller, type Seen } from '../a2a/support.ts';

export interface Place extends AsyncDisposable {
  readonly served: Served;
  /** A temporary folder, deleted on disposal. */
  readonly folder: string;
  caller(version?: '0.3' | '1.0'): Caller;
}

/**
 * Serves a module from a fresh folder, where the agent CLI also stores its sessions. `load` imports
 * the module after that, so that it can set environment variables that the module reads on import.
 */
export async function openPlace(
  name: string,
  load: (folder: string) => Promise<AgentModule>,
): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), `duolane-${name}-`));
  const restore = setEnv({
    CLAUDE_CONFIG_DIR: join(folder, 'config'),
    DUOLANE_MODEL: builtModel(name),
  });
  const module = await load(folder);
  const served = await serve({ [name]: module }, { log: memoryLog(), page: false });
  return {
    served,
    folder,
    caller: (version) => new Caller(served.url, version),
    async [Symbol.asyncDispose]() {
      await served[Symbol.asyncDispose]();
      restore();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The built offline model of an example, which starts faster than its source. */
export const builtModel = (name: string): string =>
  `module:${fileURLToPath(new URL(`../../dist/examples/${name}/model.js`, import.meta.url))}`;

function setEnv(values: Readonly<Record<string, string>>): () => void {
  const before = Object.keys(values).map((key) => [key, process.env[key]] as const);
  Object.assign(process.env, values);
  return () => {
    for (const [key, value] of before)
      if (value === undefined) delete process.env[key];
      else process.env[key] = value;
  };
}

/** Reads a stream until `enough` returns true, then closes it. */
export async function until(
  stream: AsyncIterable<Seen>,
  enough: (event: Seen, all: readonly Seen[]) => boolean,
): Promise<readonly Seen[]> {
  const seen: Seen[] = [];
  for await (const event of stream) {
    seen.push(event);
    if (enough(event, seen)) break;
  }
  return seen;
}

export interface SeenArtifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts: readonly { readonly text?: string; readonly data?: unknown }[];
}

export const artifactsIn = (
  events: readonly Seen[],
): readonly { readonly artifact: SeenArtifact; readonly lastChunk?: boolean }[] =>
  events.flatMap(({ result }) => {
    const update = result['artifactUpdate'] as
      | { readonly artifact: SeenArtifact; readonly lastChunk?: boolean }
      | undefined;
    return update && update.artifact.name !== 'response' ? [update] : [];
  });

/** The text of every status message, in order. */
export const statusesIn = (events: readonly Seen[]): readonly string[] =>
  events.flatMap(({ result }) => {
    const update = result['statusUpdate'] as
      | { readonly status: { readonly message?: { readonly parts: { readonly text?: string }[] } } }
      | undefined;
    return update?.status.message?.parts.flatMap(({ text }) => text ?? []) ?? [];
  });

/** The questions that are open after the last event. */
export function requestsIn(
  events: readonly Seen[],
): readonly { readonly id: string; readonly message?: string; readonly data?: unknown }[] {
  const status = events.at(-1)?.result['statusUpdate'] as
    | { readonly status: { readonly message?: { readonly parts: { readonly data?: unknown }[] } } }
    | undefined;
  return (status?.status.message?.parts ?? []).flatMap(({ data }) =>
    data === undefined ? [] : [(data as { request: { id: string } }).request],
  );
}
