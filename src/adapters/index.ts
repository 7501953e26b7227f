export { cli, type CliOptions } from './cli.ts';
export { growingText } from './growing-text.ts';
export { frameReader, type FrameReader, readResult } from './stream-json.ts';
