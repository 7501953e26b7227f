import { textUpdates, throttle } from '../../src/event/throttle.ts';
import type { Encoder } from '../../src/event/types.ts';
import { encoderContract } from './encoder.contract.ts';

/** Like A2A, in small: one artifact that is opened, appended to and voided. */
const artifacts = (): Encoder<object> => {
  let open = false;
  return (entry) => {
    switch (entry.type) {
      case 'turn.submitted':
        return [{ kind: 'task', at: entry.at }];
      case 'run.started':
        if (entry.discard) open = false;
        return [{ kind: 'status', state: 'working' }];
      case 'text.delta': {
        const append = open;
        open = true;
        return [{ kind: 'artifact', text: entry.delta, append }];
      }
      case 'run.finished':
        return [
          { kind: 'artifact', last: true },
          { kind: 'status', state: entry.outcome },
        ];
      default:
        return [];
    }
  };
};

encoderContract('an artifact per delta', artifacts);
encoderContract('a throttled one', () => throttle(artifacts()));
encoderContract('updates with all of the text so far', () => textUpdates());
encoderContract('updates with a preview', () => textUpdates({ preview: 'head120' }));
encoderContract('the entries themselves', () => (entry) => [entry]);
