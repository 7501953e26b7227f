import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';

/** A stream whose caller was let in for a time: by a session that may be ended, or by a token that expires. */
export interface HeldStream {
  readonly owner: string | undefined;
  /** Whether the caller would still be let in. What it rejects with ends the stream: the next request says why. */
  readonly mayGoOn: () => Promise<boolean>;
  readonly end: () => void;
}

/** Ends the streams of callers who may no longer ask. A client that is let in again resumes by its last id. */
export interface StreamRights extends AsyncDisposable {
  /** Returns what to call when the stream has ended by itself. */
  hold(stream: HeldStream): () => void;
  /** Looks at those of the owner now; resolves when those are ended that must be. */
  look(owner: string | undefined): Promise<void>;
}

/** How long a stream may outlive its rights where no one says when they end, as with a sign-out elsewhere. */
const EVERY_MS = 15_000;

export function createStreamRights(everyMs: number = EVERY_MS): StreamRights {
  const held = new Set<HeldStream>();
  let timer: NodeJS.Timeout | undefined;
  const look = async (streams: readonly HeldStream[]): Promise<void> => {
    await Promise.all(
      streams.map(async (stream) => {
        // What failed is said to the next request of the caller, which asks the same.
        if (await stream.mayGoOn().catch(() => false)) return;
        if (held.delete(stream)) stream.end();
      }),
    );
  };
  const wait = (): void => {
    timer = setTimeout(() => {
      look([...held])
        .catch(reportUnexpected)
        .finally(() => {
          if (timer && held.size > 0) wait();
          else timer = undefined;
        });
    }, everyMs).unref();
  };
  return {
    // Of one owner alone: who signs in and out all the time must not cost what all streams cost.
    look: (owner) => look([...held].filter((stream) => stream.owner === owner)),
    hold(stream) {
      held.add(stream);
      if (!timer) wait();
      return () => void held.delete(stream);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      held.clear();
      clearTimeout(timer);
      timer = undefined;
    }),
  };
}
