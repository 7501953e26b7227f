export { Channel, type ChannelOptions } from './channel.ts';
export type { Abortable, Items, ListOptions } from './types.ts';
