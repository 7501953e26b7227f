import type { TextOptions } from '../a2a/index.ts';
import type { Agent } from '../event/types.ts';
import { serve, type Served } from './serve.ts';
import type { ServeOptions } from './types.ts';

export interface ToA2AOptions extends Omit<ServeOptions, 'a2a'>, Omit<TextOptions, 'pattern'> {
  /** Where the text goes while it is being said: into one working message, or into an artifact. */
  readonly text?: 'status' | 'artifact';
}

/**
 * Any agent, unchanged, behind A2A 0.3 and 1.0: one call. Its text goes out about every 200
 * characters (`chars`), by default as a working message that always has all of it, and at the end
 * whole, as the artifact `response` (`artifact` renames it) and in the completed status. It is
 * `serve` with a pattern chosen, so the rest of its options and promises hold.
 */
export function toA2A(
  agent: Agent,
  { text = 'status', artifact = 'response', chars = 200, preview, ...options }: ToA2AOptions = {},
): Promise<Served> {
  const shown = { pattern: text, artifact, chars, ...(preview && { preview }) };
  return serve(agent, { page: false, ...options, a2a: { text: shown } });
}
