import { DuolaneError } from '../../errors.ts';
import type { Command } from '../command.ts';
import { COMMANDS } from '../command-table.ts';

/** The completions after one command. */
interface Offer {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly flags: readonly {
    readonly name: string;
    readonly text: string;
    readonly choices: readonly string[];
    readonly takesValue: boolean;
  }[];
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

async function offerOf([name, { summary, load }]: [
  string,
  (typeof COMMANDS)[string],
]): Promise<Offer> {
  const command = await load();
  const flags = Object.entries({ ...command.options, help: { text: 'show the help' } });
  return {
    name,
    summary,
    words: command.words?.() ?? [],
    flags: flags.map(([flag, { text, value, choices = [] }]: [string, FlagText]) => ({
      name: flag,
      text,
      choices,
      takesValue: value !== undefined,
    })),
  };
}

interface FlagText {
  readonly text: string;
  readonly value?: string;
  readonly choices?: readonly string[];
}

function bash(offers: readonly Offer[]): string {
  const cases = offers.map(
    ({ name, words, flags }) =>
      `    ${name}) words='${[...words, ...flags.map((flag) => `--${flag.name}`)].join(' ')}' ;;`,
  );
  const values = offers.flatMap(({ name, flags }) =>
    flags
      .filter(({ choices }) => choices.length > 0)
      .map((flag) => `    '${name} --${flag.name}') words='${flag.choices.join(' ')}' ;;`),
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
    const specs = flags.map(({ name: flag, text, choices, takesValue }) => {
      const value = takesValue
        ? `:value:${choices.length > 0 ? `(${choices.join(' ')})` : '_files'}`
        : '';
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
    ...flags.map(({ name: flag, text, choices, takesValue }) =>
      [
        `complete -c duolane -n '__fish_seen_subcommand_from ${name}' -l ${flag} -d '${quote(text)}'`,
        ...(takesValue ? ['-r'] : []),
        ...(choices.length > 0 ? [`-a '${choices.join(' ')}'`] : []),
      ].join(' '),
    ),
  ]);
  return `# duolane completion for fish\n${lines.join('\n')}\n`;
}

const quote = (text: string): string => text.replaceAll("'", '’');
