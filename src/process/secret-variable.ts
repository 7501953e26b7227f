/** Parts of a name that mark its value as a secret: OPENAI_API_KEY, GITHUB_TOKEN, DB_PASSWORD. */
const SECRET_WORDS: ReadonlySet<string> = new Set([
  'AUTH',
  'AUTHORIZATION',
  'BEARER',
  'COOKIE',
  'COOKIES',
  'CREDENTIAL',
  'CREDENTIALS',
  'CREDS',
  'DSN',
  'JWT',
  'KEY',
  'KEYS',
  'PASS',
  'PASSCODE',
  'PASSPHRASE',
  'PASSWD',
  'PASSWORD',
  'PAT',
  'SECRET',
  'SECRETS',
  'TOKEN',
]);

/** Endings of a part that mark a secret as well: AUTHTOKEN, PGPASSWORD. */
const SECRET_ENDS = [
  'ACCESSKEY',
  'APIKEY',
  'AUTHKEY',
  'CREDENTIALS',
  'ENCRYPTIONKEY',
  'MASTERKEY',
  'PASSWORD',
  'PRIVATEKEY',
  'SECRET',
  'SECRETKEY',
  'SIGNINGKEY',
  'TOKEN',
];

/** Names of secrets that the two lists above do not match. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'ANTHROPIC_CUSTOM_HEADERS',
  'AWS_ACCESS_KEY_ID',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'PGPASSFILE',
  'SSHPASS',
]);

/** Names that look like secrets and are not: SSH_AUTH_SOCK is the path of a socket. */
const PUBLIC_NAMES: ReadonlySet<string> = new Set(['SSH_AUTH_SOCK']);

/**
 * Whether the value is a URL with a password, such as `postgres://user:password@host`. Proxy
 * variables are exempt: the child needs them, with their password, to reach the network.
 */
const hasPassword = (name: string, value: string): boolean =>
  /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]*:[^\s/@]+@/i.test(value) && !/_proxy$/i.test(name);

/** Whether an environment variable holds a secret, by its name or by its value. */
export function isSecretVariable(name: string, value: string): boolean {
  const upper = name.toUpperCase();
  if (PUBLIC_NAMES.has(upper)) return false;
  return (
    SECRET_NAMES.has(upper) ||
    // PWD and OLDPWD are folders.
    upper.endsWith('_PWD') ||
    upper.endsWith('CONNECTION_STRING') ||
    nameParts(name).some(
      (part) => SECRET_WORDS.has(part) || SECRET_ENDS.some((end) => part.endsWith(end)),
    ) ||
    hasPassword(name, value)
  );
}

/** Splits a name: `GITHUB_TOKEN_2` and `githubToken` both give GITHUB and TOKEN. */
const nameParts = (name: string): string[] =>
  name
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toUpperCase()
    .split(/[^A-Z]+/);
