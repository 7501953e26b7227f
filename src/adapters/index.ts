export { cli, type CliOptions } from './cli-agent.ts';
export { growingText } from './growing-text.ts';
export { frameReader, type FrameReader, readResult } from './stream-json/frame-reader.ts';
