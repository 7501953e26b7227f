import type { TextOptions } from '../a2a/index.ts';
import type { Agent } from '../event/types.ts';
import { serve, type Served } from './serve.ts';
import type { ServeOptions } from './types.ts';

export interface ToA2AOptions extends Omit<ServeOptions, 'a2a'>, Omit<TextOptions, 'pattern'> {
  /** Options of the A2A server: webhooks, limits, heartbeats, the shape and the key of the card. */
  readonly a2a?: Omit<NonNullable<ServeOptions['a2a']>, 'text'>;
  /** Where text goes while the agent writes it: into one working message, or into an artifact. */
  readonly text?: 'status' | 'artifact';
}

/**
 * Serves any agent over A2A 0.3 and 1.0 with one call. Text is sent about every 200 characters
 * (`chars`), by default as a working message that always holds the text so far. At the end the
 * complete text is sent as the artifact `response` (`artifact` renames it) and in the completed
 * status. Otherwise it behaves like `serve` without a page.
 */
export function toA2A(
  agent: Agent,
  { text = 'status', artifact = 'response', chars = 200, preview, ...options }: ToA2AOptions = {},
): Promise<Served> {
  const shown = { pattern: text, artifact, chars, ...(preview && { preview }) };
  return serve(agent, { page: false, ...options, a2a: { ...options.a2a, text: shown } });
}
