export { abortable, onAbort, settledWithin, sleep } from './abort.ts';
export { Channel, type ChannelOptions } from './channel.ts';
export { Disposer } from './disposer.ts';
export { keepAlive } from './keep-alive.ts';
export { merge } from './merge.ts';
export { type OverflowOptions, OverflowQueue, type QueueDepth } from './overflow-queue.ts';
export type { Abortable, Items, ListOptions } from './types.ts';
