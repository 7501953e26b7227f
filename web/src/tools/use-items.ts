import { useEffect, useRef, useState } from 'preact/hooks';
import { asObjects, type JsonObject } from '../../../src/json.ts';
import type { ToolConnection } from './tool-connection.ts';

/** A list of a tool server, as far as it has been read. */
export interface ServerList {
  readonly items: readonly JsonObject[];
  /** Whether a list page is on its way. */
  readonly isLoading: boolean;
  /** Reads the next list page; undefined if the list is complete. */
  readonly more: (() => void) | undefined;
  /** Reads the list again. */
  readonly reload: () => void;
}

/** Reads a list by pages: the first now, each other one when the user asks for it. */
export function useItems(
  connection: ToolConnection,
  method: string,
  member: string,
  onError: (error: unknown) => void,
): ServerList {
  const [items, setItems] = useState<readonly JsonObject[]>([]);
  const [cursor, setCursor] = useState<string>();
  const [isLoading, setLoading] = useState(false);
  const reading = useRef<AbortController>(undefined);
  const load = (before: readonly JsonObject[], from: string | undefined): void => {
    reading.current?.abort();
    const scope = new AbortController();
    reading.current = scope;
    const { signal } = scope;
    setLoading(true);
    connection
      .request(method, from === undefined ? {} : { cursor: from }, { signal })
      .then((page) => {
        if (signal.aborted) return;
        const { nextCursor } = page;
        setItems([...before, ...asObjects(page[member])]);
        setCursor(typeof nextCursor === 'string' ? nextCursor : undefined);
      })
      .catch((error: unknown) => {
        if (!signal.aborted) onError(error);
      })
      .finally(() => {
        if (reading.current === scope) setLoading(false);
      });
  };
  useEffect(() => {
    load([], undefined);
    return () => reading.current?.abort();
  }, [connection, method]);
  return {
    items,
    isLoading,
    more: cursor === undefined ? undefined : () => load(items, cursor),
    reload: () => load([], undefined),
  };
}
