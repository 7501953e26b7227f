export { simulate } from './simulate.ts';
export type * from './types.ts';
