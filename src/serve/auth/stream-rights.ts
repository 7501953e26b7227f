import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';

/** A stream whose credentials can end: a login session that may be signed out, or a token. */
export interface TrackedStream {
  readonly owner: string | undefined;
  /**
   * Whether the credentials are still valid. A rejection ends the stream; the next request fails
   * too.
   */
  readonly mayGoOn: () => Promise<boolean>;
  readonly end: () => void;
}

/**
 * Ends streams whose credentials have ended. A client that signs in again resumes by its last id.
 */
export interface StreamRights extends AsyncDisposable {
  /** Tracks a stream; call the returned function when the stream has ended. */
  track(stream: TrackedStream): () => void;
  /**
   * Checks the streams of one owner now; resolves when those without valid credentials have ended.
   */
  check(owner: string | undefined): Promise<void>;
}

/** How often all streams are checked: the delay after a sign-out at another replica. */
const EVERY_MS = 15_000;

/** Tracks no streams yet. Its timer runs only while there are streams. */
export function createStreamRights(everyMs: number = EVERY_MS): StreamRights {
  const tracked = new Set<TrackedStream>();
  let timer: NodeJS.Timeout | undefined;
  const check = async (streams: readonly TrackedStream[]): Promise<void> => {
    await Promise.all(
      streams.map(async (stream) => {
        // The next request of the caller repeats the check and gets its failure.
        if (await stream.mayGoOn().catch(() => false)) return;
        if (tracked.delete(stream)) stream.end();
      }),
    );
  };
  const wait = (): void => {
    timer = setTimeout(() => {
      check([...tracked])
        .catch(reportUnexpected)
        .finally(() => {
          if (timer && tracked.size > 0) wait();
          else timer = undefined;
        });
    }, everyMs).unref();
  };
  return {
    // Only those of one owner: a caller that signs in and out in a loop must not cause the cost of
    // checking all streams each time.
    check: (owner) => check([...tracked].filter((stream) => stream.owner === owner)),
    track(stream) {
      tracked.add(stream);
      if (!timer) wait();
      return () => void tracked.delete(stream);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      tracked.clear();
      clearTimeout(timer);
      timer = undefined;
    }),
  };
}
