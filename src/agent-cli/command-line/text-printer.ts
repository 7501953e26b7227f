import type { JsonObject } from '../../json.ts';
import type { PrintFormat } from './flags.ts';
import type { LineOutput } from './line-output.ts';
import { asObject, asString } from '../../json.ts';

/**
 * What a person sees of the messages: with `text` the answer as it is streamed, with `json` the
 * result, with `stream-json` every message. An answer that is withdrawn for a retry cannot be taken
 * back from a terminal: a line says so.
 */
export function printer(format: PrintFormat, output: LineOutput): (message: JsonObject) => void {
  if (format === 'stream-json') return (message) => output.write(message);
  if (format === 'json') {
    return (message) => {
      if (message['type'] === 'result') output.write(message);
    };
  }
  let line = '';
  const say = (text: string): void => {
    output.text(text);
    line = text.slice(-1) === '\n' ? '' : 'open';
  };
  const endLine = (): void => {
    if (line !== '') say('\n');
  };
  return (message) => {
    const event = asObject(message['event']);
    const delta = asObject(event['delta']);
    if (delta['type'] === 'text_delta') say(asString(delta['text']));
    else if (event['type'] === 'content_block_stop') endLine();
    else if (message['subtype'] === 'api_retry' && message['discard'] === true) {
      say('[the connection broke; the answer starts again]\n');
    } else if (message['type'] === 'result' && message['is_error'] === true) {
      const errors = message['errors'];
      say(`${asString(message['result'], Array.isArray(errors) ? errors.join('\n') : 'failed')}\n`);
    } else if (message['type'] === 'result' && 'structured_output' in message) {
      say(`${JSON.stringify(message['structured_output'])}\n`);
    }
  };
}
