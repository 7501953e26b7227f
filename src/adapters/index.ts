export { cli, type CliOptions } from './cli.ts';
export { frameReader, type FrameReader, readResult } from './stream-json.ts';
