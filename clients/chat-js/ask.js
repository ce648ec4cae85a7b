import OpenAI from 'openai'

const [address, key] = process.argv.slice(2)
const client = new OpenAI({ baseURL: address + '/v1', apiKey: key })

const talk = (question) => [
  { role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello.' }, { role: 'assistant', content: 'Hello.' },
  { role: 'user', content: question },
]
const ask = (question, more = {}, options = {}, using = client) =>
  using.chat.completions.create({ model: 'agent/guide', messages: talk(question), ...more }, options)

async function refused(more, options, using) {
  try {
    await ask('Where to?', more, options, using)
  } catch (e) {
    return [e.constructor.name, e.status, e.code, e.param]
  }
}

async function collect(stream) {
  const pieces = []
  for await (const piece of stream) pieces.push(piece)
  return pieces
}
const texts = (pieces) => pieces.map((p) => p.choices[0]?.delta.content).filter(Boolean)

const out = { models: [], model: (await client.models.retrieve('agent/guide')).id }
for await (const model of client.models.list()) out.models.push(model.id)

const whole = await ask('Where to?', { user: 'ann', metadata: { team: 'a' } })
out.whole = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens > 0]

const pieces = await collect(await ask('Where to?', { stream: true, stream_options: { include_usage: true } }))
out.stream = [texts(pieces).join(''), texts(pieces).length > 1, pieces.at(-2).choices[0].finish_reason, pieces.at(-1).usage.total_tokens > 0]

const breaks = [{ role: 'user', content: 'Break.' }]
out.errors = [
  await refused({ model: 'agent/nobody' }), await refused({ n: 2 }), await refused({ messages: [] }),
  await refused({ tools: [{ type: 'function', function: { name: 'f' } }] }),
  await refused({}, {}, new OpenAI({ baseURL: address + '/v1', apiKey: 'wrong' })), await refused({ messages: breaks }),
]
try {
  await collect(await ask('x', { messages: breaks, stream: true }))
} catch (e) {
  out['stream error'] = [e.constructor.name, e.code]
}

// The client gives up, and its own second try finds the run of the first.
const once = { headers: { 'Idempotency-Key': 'once ' + process.argv[1] } }
const slow = [{ role: 'user', content: 'Slowly.' }]
try {
  await ask('x', { messages: slow }, { ...once, timeout: 500, maxRetries: 0 })
} catch (e) {
  out.timeout = e.constructor.name
}
const answers = []
for (let i = 0; i < 2; i++) answers.push(await ask('x', { messages: slow }, { ...once, timeout: 1000, maxRetries: 9 }).withResponse())
const runs = answers.map((a) => a.response.headers.get('X-Actlog-Run'))
out.once = [answers[0].data.choices[0].message.content, runs[0] === runs[1]]
out.again = texts(await collect(await ask('x', { messages: slow, stream: true }, once))).join('')
out.another = await refused({}, once)
console.log(JSON.stringify(out))
