import { DuolaneError } from '../../../errors.ts';
import { encodeEntry } from '../../../event/entry-codec.ts';
import type { Entry } from '../../../event/types.ts';
import type { AgentModule } from '../../../serve/types.ts';
import type { TaskLog } from '../../../task/types.ts';
import { runFault, FAULTS } from './run-fault.ts';
import { EXIT, textFlag, type Command, type CommandCall } from '../../command.ts';
import { openLocalChat } from '../../agents/local-chat.ts';
import { channelLogger } from '../../terminal/terminal-logger.ts';
import { exampleNames, loadAgent, SAMPLES } from '../../agents/load-agent.ts';
import { askUser, waitForEnter } from '../../terminal/prompt-user.ts';
import { Printer } from '../../terminal/entry-printer.ts';

const DEFAULT = 'ai-doctor';

export const demo: Command = {
  usage: '[sample or module] [options]',
  most: 1,
  words: exampleNames,
  options: {
    break: {
      value: 'fault',
      text: 'run a common mistake, then the same with Duolane, side by side',
      choices: FAULTS,
    },
    json: { text: 'print the entries of the task log, one JSON object per line' },
  },
  details: [
    SAMPLES,
    'Without a terminal, questions of the agent are approved, and a line on stderr says so.',
    'On a terminal it serves the page with this run until Enter or Ctrl-C.',
  ],
  examples: [
    'duolane demo',
    'duolane demo --json | jq -r .type',
    'duolane demo --break string-prompt',
  ],
  async run(call) {
    const { args, flags, terminal, signal } = call;
    const fault = textFlag(flags, 'break');
    if (fault !== undefined) {
      return runFault(fault, terminal.out, { json: flags['json'] === true, signal });
    }
    const [wanted = DEFAULT] = args;
    const { name, module } = await loadAgent(wanted);
    const [sample] = (module.options?.form?.['examples'] as unknown[] | undefined) ?? [];
    if (sample === undefined) {
      throw new DuolaneError(
        'invalid',
        `${wanted} has no sample to run; add examples to its options.form, or choose ${exampleNames().join(', ')}`,
      );
    }
    await using talk = openLocalChat(name, module, channelLogger(terminal.err));
    const { out } = terminal;
    const printer = flags['json'] ? undefined : new Printer(out);
    const text = typeof sample === 'string' ? sample : JSON.stringify(sample);
    let outcome = 'failed';
    let task = '';
    for await (const event of talk.say([{ text }], {
      ask: askUser(terminal, { signal, otherwise: 'accept' }),
      signal,
    })) {
      if (printer) printer.event(event);
      else out.line(encodeEntry(event as Entry));
      if (event.type === 'turn.submitted') task = event.turn.task;
      if (event.type === 'run.finished') outcome = event.outcome;
    }
    signal.throwIfAborted();
    if (outcome !== 'completed') return EXIT.failed;
    if (printer && terminal.interactive)
      await showPage(name, module, { log: talk.log, task }, call);
    else if (printer) out.line(`\nTo watch both lanes on a page: duolane serve ${name}`);
    return EXIT.ok;
  },
};

/** Serves the page with the run that has ended, and a form to run it again, until Enter. */
async function showPage(
  name: string,
  module: AgentModule,
  { log, task }: { readonly log: TaskLog; readonly task: string },
  { terminal: { out }, signal }: CommandCall,
): Promise<void> {
  const { resources: _, ...options } = module.options ?? {}; // the chat closes them
  const { serve } = await import('../../../serve/serve.ts'); // only the page needs it
  await using served = await serve({ [name]: { ...module, options } }, { log });
  out.line(`\nBoth lanes of this run: ${out.style('bold', `${served.url}/#${task}`)}`);
  out.line('Press Enter to exit.');
  await waitForEnter(signal);
}
