import type { Abortable } from '../../stream/types.ts';

/** What is known of a blob without its bytes. */
export interface BlobInfo {
  /** Identifies the blob in a URL. It cannot be guessed. */
  readonly id: string;
  readonly task: string;
  readonly owner?: string;
  readonly mediaType: string;
  readonly filename?: string;
  readonly bytes: number;
}

/** A range with both ends included, as in HTTP; a negative `start` counts from the end. */
export interface BlobRange {
  readonly start?: number;
  readonly end?: number;
}

/** A blob, or a range of it. */
export interface Blob {
  readonly info: BlobInfo;
  /** The first and the last byte of the body in the blob. */
  readonly range: { readonly start: number; readonly end: number };
  /** Reads the bytes as they are pulled; breaking out of the loop ends it. Single use. */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Stores artifact bytes that are too large for a log. An event has their URL; the server sends
 * them.
 */
export interface BlobStore {
  /** Stores a blob; it is durable when this resolves. A failed call leaves nothing behind. */
  put(
    blob: Pick<BlobInfo, 'task' | 'owner' | 'mediaType' | 'filename'>,
    bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: Abortable,
  ): Promise<BlobInfo>;
  /**
   * Opens a blob. Throws `not_found` if it does not exist, and also if the caller may not read it,
   * so that the caller does not learn that it exists. Throws `invalid` for a range after its end.
   */
  get(id: string, options?: Abortable & BlobRange & { readonly caller?: string }): Promise<Blob>;
  /** Deletes every blob of the task, if it has any. */
  removeTask(task: string): Promise<void>;
}

/** What all blob stores can limit and decide. */
export interface BlobRules {
  /** The size limit of a blob; 1 GiB by default. */
  readonly maxBytes?: number;
  /** Decides whether a caller may read a blob; by default its owner, or anyone without an owner. */
  readonly mayRead?: (info: BlobInfo, caller: string | undefined) => boolean | Promise<boolean>;
}
