/** The functions of Node, before a world replaces them. */
export const realSetImmediate: typeof setImmediate = globalThis.setImmediate;
export const realNow: () => number = performance.now.bind(performance);
