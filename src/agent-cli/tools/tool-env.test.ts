import { expect, test } from 'vitest';
import { toolEnv } from './tool-env.ts';

const SECRETS = {
  ANTHROPIC_API_KEY: 'x',
  ANTHROPIC_AUTH_TOKEN: 'x',
  ANTHROPIC_CUSTOM_HEADERS: 'x',
  AWS_ACCESS_KEY_ID: 'x',
  AWS_SECRET_ACCESS_KEY: 'x',
  AWS_SESSION_TOKEN: 'x',
  AZURE_OPENAI_API_KEY: 'x',
  CLAUDE_CODE_OAUTH_TOKEN: 'x',
  DATABASE_URL: 'postgres://me:pw@host/db',
  GEMINI_API_KEY: 'x',
  GH_TOKEN: 'x',
  GOOGLE_APPLICATION_CREDENTIALS: 'x',
  HF_TOKEN: 'x',
  OPENAI_API_KEY: 'x',
  OPENROUTER_API_KEY: 'x',
  PGPASSWORD: 'x',
  npm_config__authToken_SECRET: 'x',
  my_password: 'x',
  AZURE_STORAGE_CONNECTION_STRING: 'x',
  DB_PASS: 'x',
  DOCKER_AUTH_CONFIG: 'x',
  GITHUB_TOKEN2: 'x',
  LONG_URL: `postgres://me:${'x'.repeat(900)}@host/db`,
  MYSQL_PWD: 'x',
  NPM_CONFIG__AUTHTOKEN: 'x',
  SENTRY_DSN: 'x',
  SESSION_COOKIE: 'x',
  SSHPASS: 'x',
  githubToken: 'x',
  npm_config__auth: 'x',
  DB_PWD: 'x',
  S3_SECRETKEY: 'x',
  MINIO_ACCESSKEY_2: 'x',
  JIRA_CREDS: 'x',
};
const OTHERS = {
  PATH: '/bin',
  HOME: '/root',
  ANTHROPIC_BASE_URL: 'http://localhost',
  HTTPS_PROXY: 'http://me:pw@proxy',
  GIT_AUTHOR_NAME: 'me',
  KEYBOARD: 'de',
  OLDPWD: '/',
  PROXY_BYPASS: 'x',
  PWD: '/',
  XAUTHORITY: '/x',
  MAX_THINKING_TOKENS: '1',
  SSH_AUTH_SOCK: '/run/x',
};

test('secrets are removed, all other variables stay', () => {
  expect(toolEnv({ ...SECRETS, ...OTHERS, GONE: undefined }, [])).toEqual(OTHERS);
});

test('named secrets stay', () => {
  expect(toolEnv({ ...SECRETS, ...OTHERS }, ['GH_TOKEN', 'AWS_*'])).toEqual({
    ...OTHERS,
    GH_TOKEN: 'x',
    AWS_ACCESS_KEY_ID: 'x',
    AWS_SECRET_ACCESS_KEY: 'x',
    AWS_SESSION_TOKEN: 'x',
  });
});
