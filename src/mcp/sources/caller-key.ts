/** The `_meta` key by which a client that serves several callers names the caller of a request. */
export const CALLER = 'duolane/caller';
