import type { Frame } from '../../event/types.ts';
import { frameDescriber } from '../../trace/describe-frame.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import type { TextOutput } from './terminal.ts';

/** Prints frames of both lanes, one per line, with the seconds since the first. */
export function framePrinter(channel: TextOutput): (frame: Frame) => void {
  const describe = frameDescriber();
  let first: number | undefined;
  return (frame) => {
    first ??= frame.at;
    const { lane, arrow, text, ms, bad } = describe(frame);
    const seconds = `+${((frame.at - first) / 1000).toFixed(3)}`.padStart(9);
    const label = channel.style(lane === 'CTRL' ? 'yellow' : 'cyan', `[${lane}]`.padEnd(6));
    const took = ms === undefined ? '' : ` (${ms} ms)`;
    const content = stripControlCharacters(`${text}${took}`);
    const line = `${channel.style('dim', seconds)} ${arrow} ${label} `;
    channel.line(line + (bad ? channel.style('red', content) : content));
  };
}
