import { DuolaneError, type ErrorCode } from '../../../errors.ts';
import { raceAbort, sleep } from '../../../stream/abort.ts';
import type { Abortable } from '../../../stream/types.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import type { SourceChange } from '../../types.ts';
import type { McpClient } from './mcp-client.ts';

const FILTER = { toolsListChanged: true, resourcesListChanged: true, promptsListChanged: true };
const KINDS = ['tools', 'resources', 'prompts'] as const;

const WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;

/** Failures after which a new subscription may succeed. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'network',
  'response_lost',
  'server',
  'overloaded',
  'rate_limited',
  'timeout',
]);

/**
 * The changes of a server of the stateless protocol: one `subscriptions/listen` request while there
 * are listeners. It is sent again when it breaks, which counts as a change. A server without that
 * request never reports a change.
 */
export class ChangeSubscription {
  readonly #client: McpClient;
  readonly #uris: readonly string[];
  #listeners = 0;
  #stop: AbortController | undefined;
  #acknowledged: Promise<void> = Promise.resolve();

  constructor(client: McpClient, uris: readonly string[] = []) {
    this.#client = client;
    this.#uris = uris;
  }

  async *listen(options: Abortable = {}): AsyncGenerator<SourceChange, void, undefined> {
    this.#listeners += 1;
    if (this.#listeners === 1) this.#start();
    try {
      for await (const change of this.#client.changes.listen(options)) {
        // Wait for the first acknowledgement.
        if (change.type === 'listening')
          // An abort only ends the wait: the loop over the changes throws it.
          await raceAbort(this.#acknowledged, options.signal).catch(() => {});
        yield change;
      }
    } finally {
      this.#listeners -= 1;
      if (this.#listeners === 0)
        this.#stop?.abort(new DuolaneError('closed', 'the last listener has ended'));
    }
  }

  #start(): void {
    const stop = new AbortController();
    this.#stop = stop;
    this.#acknowledged = new Promise((ready) => {
      this.#run(stop.signal, ready).finally(ready).catch(reportUnexpected);
    });
  }

  /** Keeps the subscription open. Never rejects. */
  async #run(signal: AbortSignal, ready: () => void): Promise<void> {
    let tries = 0;
    let again = false;
    const { acknowledged, changes, requests } = this.#client;
    const uris = this.#uris;
    const notifications = { ...FILTER, ...(uris.length > 0 && { resourceSubscriptions: uris }) };
    const acknowledge = (): void => {
      tries = 0;
      ready();
      if (again) for (const type of KINDS) changes.notify({ type });
      if (again) for (const uri of uris) changes.notify({ type: 'resource', uri });
      again = true;
    };
    while (!signal.aborted) {
      const id = requests.nextId;
      acknowledged.set(id, acknowledge);
      try {
        await this.#client.request('subscriptions/listen', { notifications }, { signal });
      } catch (error) {
        if (!PASSING.has(DuolaneError.from(error).code)) return;
      } finally {
        acknowledged.delete(id);
      }
      tries += 1;
      // An abort ends the wait; the loop checks the signal.
      await sleep(Math.min(WAIT_MS * 2 ** (tries - 1), MAX_WAIT_MS), signal).catch(() => {});
    }
  }
}
