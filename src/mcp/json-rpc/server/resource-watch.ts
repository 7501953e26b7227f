import { DuolaneError, tooLarge } from '../../../errors.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type { ToolSource } from '../../types.ts';

/** How many resources one client may subscribe. */
const MAX_WATCHED = 1_000;
/** The longest address of a subscribed resource; a session keeps all of them. */
const MAX_URI_CHARS = 2_048;

/** The single resources that a client of a session has subscribed. */
export class ResourceWatch implements AsyncDisposable {
  readonly #source: ToolSource;
  readonly #notify: (uri: string) => Promise<void>;
  readonly #watched = new Map<string, AbortController>();
  readonly #running = new Set<Promise<void>>();

  constructor(source: ToolSource, notify: (uri: string) => Promise<void>) {
    this.#source = source;
    this.#notify = notify;
  }

  /** Subscribes a resource. Resolves when the source listens; throws its error if it cannot. */
  async add(uri: string): Promise<void> {
    if (uri.length > MAX_URI_CHARS)
      throw tooLarge(`the uri exceeds the limit of subscribed resources (${MAX_URI_CHARS})`);
    if (this.#watched.has(uri)) return;
    if (this.#watched.size >= MAX_WATCHED)
      throw tooLarge(
        `subscribed resources exceed the limit (${MAX_WATCHED}); unsubscribe some first`,
      );
    const stop = new AbortController();
    this.#watched.set(uri, stop);
    await new Promise<void>((listening, fails) => {
      const running = this.#listen(uri, stop, listening)
        // after the first event no request is left to fail; the calls report the end of a source
        .catch(fails)
        .finally(() => {
          if (this.#watched.get(uri) === stop) this.#watched.delete(uri);
          this.#running.delete(running);
          listening();
        });
      this.#running.add(running);
    });
  }

  remove(uri: string): void {
    this.#watched
      .get(uri)
      ?.abort(new DuolaneError('closed', 'the client unsubscribed the resource'));
    this.#watched.delete(uri);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    for (const uri of this.#watched.keys()) this.remove(uri);
    await Promise.all(this.#running);
  }

  async #listen(uri: string, { signal }: AbortController, listening: () => void): Promise<void> {
    for await (const change of this.#source.listen?.({ signal, resources: [uri] }) ?? []) {
      if (change.type === 'listening') listening();
      else if (change.type === 'resource' && change.uri === uri) await this.#notify(uri);
    }
  }
}
