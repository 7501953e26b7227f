import type { PrintFormat } from './flags.ts';
import type { LineOutput } from './line-output.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';

/**
 * Returns the writer of an output format: `text` prints the model's text while it is streamed,
 * `json` the result, `stream-json` every message. Text of an attempt that is retried cannot be
 * removed from a terminal, so a line marks where the message starts again.
 */
export function printer(format: PrintFormat, output: LineOutput): (message: JsonObject) => void {
  if (format === 'stream-json') return (message) => output.write(message);
  if (format === 'json') {
    return (message) => {
      if (message['type'] === 'result') output.write(message);
    };
  }
  let line = '';
  const print = (text: string): void => {
    output.text(text);
    line = text.slice(-1) === '\n' ? '' : 'open';
  };
  const endLine = (): void => {
    if (line !== '') print('\n');
  };
  return (message) => {
    const event = asObject(message['event']);
    const delta = asObject(event['delta']);
    if (delta['type'] === 'text_delta') print(asString(delta['text']));
    else if (event['type'] === 'content_block_stop') endLine();
    else if (message['subtype'] === 'api_retry' && message['discard'] === true) {
      print('[the connection was lost; the message starts again]\n');
    } else if (message['type'] === 'result' && message['is_error'] === true) {
      const errors = message['errors'];
      const text = Array.isArray(errors) ? errors.join('\n') : 'failed';
      print(`${asString(message['result'], text)}\n`);
    } else if (message['type'] === 'result' && 'structured_output' in message) {
      print(`${JSON.stringify(message['structured_output'])}\n`);
    }
  };
}
