type Env = Readonly<Record<string, string | undefined>>;

/** Words in a name that mark its value as a secret: OPENAI_API_KEY, GITHUB_TOKEN, DB_PASSWORD. */
const SECRET_WORDS: ReadonlySet<string> = new Set([
  'APIKEY',
  'CREDENTIAL',
  'CREDENTIALS',
  'KEY',
  'KEYS',
  'PASSPHRASE',
  'PASSWD',
  'PASSWORD',
  'PAT',
  'SECRET',
  'SECRETS',
  'TOKEN',
]);

/** Secrets whose names do not say so. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'ANTHROPIC_CUSTOM_HEADERS',
  'AWS_ACCESS_KEY_ID',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'PGPASSFILE',
  'PGPASSWORD',
]);

/** `postgres://user:password@host`; a proxy is needed to reach the network, with its password. */
const hasPassword = (name: string, value: string): boolean =>
  /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]{0,200}:[^\s/@]{1,200}@/i.test(value) &&
  !/_proxy$/i.test(name);

function isSecret(name: string, value: string): boolean {
  const upper = name.toUpperCase();
  return (
    SECRET_NAMES.has(upper) ||
    upper.split(/[^A-Z0-9]+/).some((word) => SECRET_WORDS.has(word)) ||
    hasPassword(name, value)
  );
}

/**
 * The environment for what the model runs: Bash and stdio servers. The keys that this process needs
 * for its model are not theirs; `pass` names those that are, with `*` for any ending.
 */
export function toolEnv(env: Env, pass: readonly string[]): Record<string, string> {
  const passed = (name: string): boolean =>
    pass.some((rule) => (rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : name === rule));
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined && (passed(entry[0]) || !isSecret(entry[0], entry[1])),
    ),
  );
}
