export { abortable, onAbort, sleep } from './abort.ts';
export { Channel, type ChannelOptions } from './channel.ts';
export { keepAlive } from './keep-alive.ts';
export { merge } from './merge.ts';
export type { Abortable, Items, ListOptions } from './types.ts';
