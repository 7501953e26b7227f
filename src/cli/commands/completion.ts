import { DuolaneError } from '../../errors.ts';
import type { Command, Option } from '../command.ts';
import { type CommandEntry, COMMANDS } from '../command-table.ts';

/** The completions after one command. */
interface Offer {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly flags: readonly (readonly [name: string, option: Option])[];
}

const SHELLS: Readonly<Record<string, (offers: readonly Offer[]) => string>> = { bash, zsh, fish };

export const completion: Command = {
  usage: '<bash|zsh|fish>',
  most: 1,
  words: () => Object.keys(SHELLS),
  details: ['The script contains all names: the shell starts no process while you type.'],
  examples: [
    'source <(duolane completion bash)',
    'duolane completion zsh > "${fpath[1]}/_duolane"',
    'duolane completion fish > ~/.config/fish/completions/duolane.fish',
  ],
  async run({ args, terminal }) {
    const [shell = ''] = args;
    const script = SHELLS[shell];
    if (!script) {
      throw new DuolaneError(
        'invalid',
        `missing argument <shell>: expected duolane completion bash|zsh|fish`,
      );
    }
    terminal.out.write(script(await Promise.all(Object.entries(COMMANDS).map(offerOf))));
    return 0;
  },
};

async function offerOf([name, { summary, load }]: [string, CommandEntry]): Promise<Offer> {
  const { options, words } = await load();
  const flags = Object.entries({ ...options, help: { text: 'show the help' } });
  return { name, summary, words: words?.() ?? [], flags };
}

function bash(offers: readonly Offer[]): string {
  const cases = offers.map(
    ({ name, words, flags }) =>
      `    ${name}) words='${[...words, ...flags.map(([flag]) => `--${flag}`)].join(' ')}' ;;`,
  );
  const values = offers.flatMap(({ name, flags }) =>
    flags
      .filter(([, { choices }]) => choices)
      .map(([flag, { choices }]) => `    '${name} --${flag}') words='${choices?.join(' ')}' ;;`),
  );
  return `# duolane completion for bash
_duolane() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${offers.map(({ name }) => name).join(' ')} --help --version' -- "$cur"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  case "\${COMP_WORDS[1]} $prev" in
${values.join('\n')}
    *) ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
}
complete -o filenames -F _duolane duolane
`;
}

function zsh(offers: readonly Offer[]): string {
  const commands = offers.map(({ name, summary }) => `    '${name}:${quote(summary)}'`);
  const cases = offers.map(({ name, words, flags }) => {
    const specs = flags.map(([flag, { text, choices, value: takesValue }]) => {
      const value = takesValue ? `:value:${choices ? `(${choices.join(' ')})` : '_files'}` : '';
      return `'--${flag}[${quote(text).replace(/[[\]:]/g, ' ')}]${value}'`;
    });
    const first = words.length > 0 ? `'1:word:(${words.join(' ')})'` : `'*:file:_files'`;
    return `    ${name}) _arguments ${[...specs, first].join(' ')} ;;`;
  });
  return `#compdef duolane
local -a commands=(
${commands.join('\n')}
)
if (( CURRENT == 2 )); then
  _describe command commands
else
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${cases.join('\n')}
  esac
fi
`;
}

function fish(offers: readonly Offer[]): string {
  const lines = offers.flatMap(({ name, summary, words, flags }) => [
    `complete -c duolane -n __fish_use_subcommand -a ${name} -d '${quote(summary)}'`,
    ...words.map(
      (word) => `complete -c duolane -n '__fish_seen_subcommand_from ${name}' -a ${word}`,
    ),
    ...flags.map(([flag, { text, choices, value }]) =>
      [
        `complete -c duolane -n '__fish_seen_subcommand_from ${name}' -l ${flag} -d '${quote(text)}'`,
        ...(value ? ['-r'] : []),
        ...(choices ? [`-a '${choices.join(' ')}'`] : []),
      ].join(' '),
    ),
  ]);
  return `# duolane completion for fish\n${lines.join('\n')}\n`;
}

const quote = (text: string): string => text.replaceAll("'", '’');
